// Files of tensors.
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "train/safetensors.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  cohort::isAccepted(file.path(), [&] {
    const cohort::SafetensorsReader reader(file.path());
    for (const cohort::StoredTensor& tensor : reader.tensors()) {
      if (tensor.offset > size || tensor.bytes > size - tensor.offset)
        cohort::failFuzzing("A tensor is not in its file.");
      if (reader.find(tensor.name) != &tensor) cohort::failFuzzing("A tensor is not found by its name.");
      cohort::isAccepted(file.path(), [&] {
        std::vector<float> values(tensor.bytes / sizeof(float));
        reader.read(tensor.name, values);
      });
    }
  });
  return 0;
}
