// TensorBoard's event files.
#include "report/event_file.h"
#include "tests/fuzz/repair_records.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  cohort::isAccepted(file.path(), [&] { cohort::readEvents(file.path()); });
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  return cohort::mutateAndRepair({data, maxSize}, size, seed, cohort::repairRecords);
}
