// JPEG and PNG images.
#include <algorithm>
#include <bit>
#include <cstring>

#include <zlib.h>

#include "data/image_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

std::uint32_t bigEndian(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

// A PNG's chunks, each `length type data crc(type data)`; other files stay as they are.
void repairChunks(std::span<std::uint8_t> file) {
  constexpr std::size_t kSignatureBytes = 8;
  constexpr std::size_t kFrame = 12;
  if (!cohort::isPng(std::as_bytes(file))) return;
  file = file.subspan(kSignatureBytes);
  while (file.size() >= kFrame) {
    const std::size_t length = std::min<std::size_t>(bigEndian(file.data()), file.size() - kFrame);
    for (std::size_t i = 0; i < 4; ++i) file[i] = static_cast<std::uint8_t>(length >> (24 - 8 * i));
    const auto crc = static_cast<std::uint32_t>(::crc32(0, file.data() + 4, static_cast<uInt>(length + 4)));
    for (std::size_t i = 0; i < 4; ++i) file[8 + length + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    file = file.subspan(kFrame + length);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  const std::string name = "the image";
  cohort::SampleShape stored;
  if (!cohort::isAccepted(name, [&] { stored = cohort::encodedShape(file, name); })) return 0;
  const cohort::ImageRequest requests[] = {
      {.channels = 3}, {.channels = 1}, {.channels = 3, .height = 5, .width = 7}};
  for (const cohort::ImageRequest& request : requests) {
    cohort::isAccepted(name, [&] {
      cohort::Image image;
      cohort::decodeImage(file, name, request, image);
      const cohort::SampleShape& shape = image.shape;
      if (shape.channels != request.channels || image.pixels.size() != shape.count() ||
          shape.height > stored.height || shape.width > stored.width ||
          shape.height < std::min(request.height, stored.height) ||
          shape.width < std::min(request.width, stored.width)) {
        cohort::failFuzzing("The image has a shape that was not asked for.");
      }
    });
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  return cohort::mutateAndRepair({data, maxSize}, size, seed, repairChunks);
}
