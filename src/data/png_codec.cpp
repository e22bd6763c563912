// PNG by libpng: 1 to 16 bits, grey, palette or colour, interlaced or not. What is transparent is shown as the colour that
// is stored under it.
#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <png.h>

#include "base/error.h"
#include "data/codec_parts.h"

namespace cohort {
namespace {

void onError(png_structp png, png_const_charp words) {
  static_cast<CodecMessage*>(png_get_error_ptr(png))->set(words);
  png_longjmp(png, 1);
}

// libpng warns of what it can read without loss.
void onWarning(png_structp /*png*/, png_const_charp /*words*/) {}

// The part of the file that libpng has not read yet.
struct Rest {
  const std::byte* at = nullptr;
  std::size_t bytes = 0;
};

void giveBytes(png_structp png, png_bytep out, std::size_t bytes) {
  auto* const rest = static_cast<Rest*>(png_get_io_ptr(png));
  if (bytes > rest->bytes) png_error(png, "premature end of the file");
  std::memcpy(out, rest->at, bytes);
  rest->at += bytes;
  rest->bytes -= bytes;
}

// libpng's two objects for one image.
class PngHandle {
 public:
  explicit PngHandle(CodecMessage& message)
      : png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &message, onError, onWarning)) {
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngHandle() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngHandle(const PngHandle&) = delete;
  PngHandle& operator=(const PngHandle&) = delete;

  bool started() const { return png_ != nullptr && info_ != nullptr; }
  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

 private:
  png_structp png_;
  png_infop info_ = nullptr;
};

// Reads one image. The methods that return bool are those that call setjmp: false where the library gave up, with its
// reason in message_.
class PngReader {
 public:
  PngReader(std::span<const std::byte> file, const std::string& name)
      : name_(name), size_(file.size()), rest_{.at = file.data(), .bytes = file.size()}, handle_(message_) {
    if (!handle_.started()) throw IoError(fmt::format("{} cannot be read: libpng does not start.", name));
    if (!readHeader()) refuse();
    requireSaneSize(png_get_image_height(handle_.png(), handle_.info()),
                    png_get_image_width(handle_.png(), handle_.info()), name_);
  }

  SampleShape shape() const {
    const bool grey = (png_get_color_type(handle_.png(), handle_.info()) & PNG_COLOR_MASK_COLOR) == 0;
    return {.channels = grey ? 1 : 3,
            .height = static_cast<int>(png_get_image_height(handle_.png(), handle_.info())),
            .width = static_cast<int>(png_get_image_width(handle_.png(), handle_.info()))};
  }

  void decode(const ImageRequest& request, std::vector<std::uint8_t>& rows, Image& image) {
    const SampleShape stored = shape();
    requirePlausibleLength(stored);
    image.reshape({.channels = request.channels, .height = stored.height, .width = stored.width});
    const bool interlaced = png_get_interlace_type(handle_.png(), handle_.info()) != PNG_INTERLACE_NONE;
    const std::size_t rowBytes =
        static_cast<std::size_t>(stored.width) * static_cast<std::size_t>(stored.channels);
    // The passes of an interlaced image each fill some of the pixels of some of the rows.
    const std::size_t needed = interlaced ? rowBytes * static_cast<std::size_t>(stored.height) : rowBytes;
    if (rows.size() < needed) rows.resize(needed);
    if (!prepare() || png_get_rowbytes(handle_.png(), handle_.info()) != rowBytes) refuse();
    if (!(interlaced ? readPasses(rows.data(), rowBytes, stored, image)
                     : readRows(rows.data(), stored, image))) {
      refuse();
    }
  }

 private:
  [[noreturn]] void refuse() const {
    refuseImage(name_, fmt::format("is a damaged PNG image ({})", message_.text));
  }

  bool readHeader() {
    if (setjmp(png_jmpbuf(handle_.png())) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's way out
    png_set_read_fn(handle_.png(), &rest_, giveBytes);
    // Colour profiles, texts, dates … are not used, and need not be unpacked.
    png_set_keep_unknown_chunks(handle_.png(), PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(handle_.png(), handle_.info());
    return true;
  }

  // Whatever is stored, rows come out as grey or as red, green, blue, 8 bits each.
  bool prepare() {
    if (setjmp(png_jmpbuf(handle_.png())) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's way out
    png_set_scale_16(handle_.png());
    png_set_expand(handle_.png());
    png_set_strip_alpha(handle_.png());
    png_set_interlace_handling(handle_.png());
    png_read_update_info(handle_.png(), handle_.info());
    return true;
  }

  bool readRows(std::uint8_t* row, SampleShape stored, Image& image) {
    if (setjmp(png_jmpbuf(handle_.png())) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's way out
    for (int y = 0; y < stored.height; ++y) {
      png_read_row(handle_.png(), row, nullptr);
      storeRow(row, stored.channels, y, image);
    }
    png_read_end(handle_.png(), nullptr);
    return true;
  }

  bool readPasses(std::uint8_t* rows, std::size_t rowBytes, SampleShape stored, Image& image) {
    if (setjmp(png_jmpbuf(handle_.png())) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's way out
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
      for (int y = 0; y < stored.height; ++y) {
        png_read_row(handle_.png(), rows + static_cast<std::size_t>(y) * rowBytes, nullptr);
      }
    }
    png_read_end(handle_.png(), nullptr);
    for (int y = 0; y < stored.height; ++y) {
      storeRow(rows + static_cast<std::size_t>(y) * rowBytes, stored.channels, y, image);
    }
    return true;
  }

  // Deflate makes at most 1,032 bytes of one: a short file that announces a huge image gets no memory.
  void requirePlausibleLength(SampleShape stored) const {
    const std::uint64_t rowBytes = png_get_rowbytes(handle_.png(), handle_.info());
    if (rowBytes * static_cast<std::uint64_t>(stored.height) > std::uint64_t{size_} * 1032) {
      refuseImage(name_, fmt::format("is truncated: {} bytes cannot hold the {}x{} pixels that it announces",
                                     size_, stored.height, stored.width));
    }
  }

  const std::string& name_;
  std::size_t size_;
  Rest rest_;
  CodecMessage message_;
  PngHandle handle_;  // uses the two above
};

}  // namespace

void decodePng(std::span<const std::byte> file, const std::string& name, const ImageRequest& request,
               Image& image) {
  thread_local std::vector<std::uint8_t> rows;
  PngReader(file, name).decode(request, rows, image);
}

SampleShape pngShape(std::span<const std::byte> file, const std::string& name) {
  return PngReader(file, name).shape();
}

std::string encodePng(const Image& image) {
  const SampleShape& shape = image.shape;
  COHORT_CHECK(shape.channels == 1 || shape.channels == 3, "images have 1 or 3 channels");
  COHORT_CHECK(shape.count() > 0 && image.pixels.size() == shape.count(), "the pixels of a PNG image");
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t plane = shape.count() / channels;
  std::vector<std::uint8_t> interleaved(shape.count());
  for (std::size_t i = 0; i < plane; ++i) {
    for (std::size_t c = 0; c < channels; ++c) interleaved[i * channels + c] = image.pixels[c * plane + i];
  }

  // libpng's simplified interface: it needs no longjmp.
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(shape.width);
  header.height = static_cast<png_uint_32>(shape.height);
  header.format = shape.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string file(bytes, '\0');
  const int written =
      png_image_write_to_memory(&header, file.data(), &bytes, 0, interleaved.data(), 0, nullptr);
  if (written == 0) throw IoError(fmt::format("Cannot make a PNG image: {}.", header.message));
  file.resize(bytes);
  return file;
}

}  // namespace cohort
