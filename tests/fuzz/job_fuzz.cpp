// What a report reads of a job directory. The first byte of an input chooses its file: config.yaml, summary.json or layers.json.
#include "base/test_directory.h"
#include "report/run_records.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const cohort::TestDirectory folder;
  cohort::writeTestFile(folder / "metrics.jsonl", "");  // without it, the folder is no job directory
  const cohort::InputFile file({data + 1, size - 1});
  const char* const names[] = {"config.yaml", "summary.json", "layers.json"};
  const std::filesystem::path link = folder / names[data[0] % std::size(names)];
  std::filesystem::create_symlink(file.path(), link);
  cohort::isAccepted(link.native(), [&] { cohort::readRunRecords(folder.path()); });
  std::filesystem::remove(link);
  return 0;
}
