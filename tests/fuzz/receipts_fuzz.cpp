// receipt.jsonl.
#include "report/receipt_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  cohort::isAccepted(file.path(), [&] {
    const std::vector<cohort::Receipt> receipts = cohort::readReceipts(file.path());
    const cohort::Comparison same = cohort::compareReceipts(receipts, receipts, 0, 1000);
    if (same.equal.size() > receipts.size()) cohort::failFuzzing("more receipts agree than there are");
  });
  return 0;
}
