// What a worker tells its supervisor. A line that is taken is written as one that is taken again.
#include "launch/worker_message.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = cohort::parseLine({reinterpret_cast<const char*>(data), size});
  if (!message) return 0;
  const std::string line = cohort::toLine(*message);
  if (line.find('\n') != line.size() - 1 || !cohort::parseLine(line))
    cohort::failFuzzing("written otherwise: " + line);
  return 0;
}
