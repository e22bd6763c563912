// CIFAR's binary files. The first byte of an input chooses what it is: a file of CIFAR-10, of CIFAR-100, or of class names.
#include "base/test_directory.h"
#include "data/cifar.h"
#include "tests/fuzz/read_images.h"

namespace {

// The test split alone: what is behind it is the same for training.
void readSplit(const std::string& folder,
               std::unique_ptr<cohort::ImageSet> (*open)(const std::filesystem::path&, cohort::Split)) {
  cohort::isAccepted(folder, [&] {
    const auto set = open(folder, cohort::Split::Test);
    cohort::readImages(*set, folder);
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const cohort::TestDirectory folder;
  const cohort::InputFile file({data + 1, size - 1});
  const char* const names[] = {"test_batch.bin", "test.bin", "batches.meta.txt"};
  const std::size_t kind = data[0] % std::size(names);
  const std::filesystem::path link = folder / names[kind];
  std::filesystem::create_symlink(file.path(), link);
  if (kind == 2) cohort::writeTestFile(folder / names[0], std::string(1 + cohort::kCifarPixelBytes, '\1'));
  readSplit(folder.path(), kind == 1 ? cohort::openCifar100 : cohort::openCifar10);
  std::filesystem::remove(link);
  if (kind == 2) std::filesystem::remove(folder / names[0]);
  return 0;
}
