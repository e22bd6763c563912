// TFRecord files: frames, examples and the images in them.
#include "data/tfrecord.h"
#include "tests/fuzz/read_images.h"
#include "tests/fuzz/repair_records.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  cohort::isAccepted(file.path(), [&] {
    const auto set = cohort::openTfrecords(file.path(), cohort::Split::Train);
    cohort::readImages(*set, file.path());
  });
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  return cohort::mutateAndRepair({data, maxSize}, size, seed, cohort::repairRecords);
}
