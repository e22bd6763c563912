// JPEG by libjpeg-turbo. Its own interface, not TurboJPEG's: rows go straight into the planes (no whole interleaved image
// in between), and a warning's number tells harmless ones from lost data.
//
// The orientation that a camera wrote into a file (EXIF) is not applied.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>  // needs <cstdio> before it

#include "base/error.h"
#include "data/codec_parts.h"

namespace cohort {
namespace {

// A progressive file may announce any number of passes over all pixels; real ones have about ten.
constexpr int kMostScans = 500;

// `base` is the first member, so that the library's pointer to it is a pointer to this.
struct ErrorManager {
  jpeg_error_mgr base{};
  std::jmp_buf jump{};
  CodecMessage message;
};

[[noreturn]] void giveUp(j_common_ptr decoder) {
  auto* const errors = reinterpret_cast<ErrorManager*>(decoder->err);
  char words[JMSG_LENGTH_MAX];
  errors->base.format_message(decoder, words);
  errors->message.set(words);
  std::longjmp(errors->jump, 1);  // NOLINT(cert-err52-cpp): the library has no other way out
}

// Warnings have a negative level. Those of unusual headers and of bytes between segments lose nothing, and real
// collections have many; all others say that pixels are made up.
void onMessage(j_common_ptr decoder, int level) {
  if (level >= 0) return;
  switch (decoder->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
      return;
    default:
      giveUp(decoder);
  }
}

void onProgress(j_common_ptr decoder) {
  if (reinterpret_cast<j_decompress_ptr>(decoder)->input_scan_number <= kMostScans) return;
  auto* const errors = reinterpret_cast<ErrorManager*>(decoder->err);
  errors->message.set("more scans than any camera or editor writes");
  std::longjmp(errors->jump, 1);  // NOLINT(cert-err52-cpp): as above
}

std::uint8_t productOfInks(int ink, int black) {
  return static_cast<std::uint8_t>((ink * black + 127) / 255);
}

// Four inks to red, green, blue, in place. Adobe's programs, which write nearly all such files, store ink inverted.
void inksToRgb(std::uint8_t* row, std::size_t width, bool inverted) {
  const int flip = inverted ? 0 : 255;
  for (std::size_t x = 0; x < width; ++x) {
    const std::uint8_t* inks = row + 4 * x;
    const int black = inks[3] ^ flip;
    const int cyan = inks[0] ^ flip;
    const int magenta = inks[1] ^ flip;
    const int yellow = inks[2] ^ flip;
    row[3 * x] = productOfInks(cyan, black);
    row[3 * x + 1] = productOfInks(magenta, black);
    row[3 * x + 2] = productOfInks(yellow, black);
  }
}

// The smallest n for which n eighths of the image are not smaller than the request; 5 to 7 take longer than the whole image,
// since the library has no vector code for them.
unsigned eighthsFor(const jpeg_decompress_struct& decoder, const ImageRequest& request) {
  constexpr unsigned kFull = 8;
  if (request.height <= 0 || request.width <= 0) return kFull;
  const auto scaled = [](std::uint64_t side, unsigned n) { return (side * n + kFull - 1) / kFull; };
  for (const unsigned n : {1U, 2U, 3U, 4U}) {
    if (scaled(decoder.image_height, n) >= static_cast<std::uint64_t>(request.height) &&
        scaled(decoder.image_width, n) >= static_cast<std::uint64_t>(request.width)) {
      return n;
    }
  }
  return kFull;
}

// One for each thread; used for one image after the other. The methods that return bool are those that call setjmp: false
// where the library gave up, with its reason in errors_.message.
class JpegDecoder {
 public:
  JpegDecoder() {
    decoder_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = giveUp;
    errors_.base.emit_message = onMessage;
    progress_.progress_monitor = onProgress;
    if (!create()) throw IoError(fmt::format("Cannot start libjpeg: {}.", errors_.message.text));
    decoder_.progress = &progress_;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&decoder_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  SampleShape shape(std::span<const std::byte> file, const std::string& name) {
    const Reading reading(decoder_);
    openFile(file, name);
    return {.channels = decoder_.num_components == 1 ? 1 : 3,
            .height = static_cast<int>(decoder_.image_height),
            .width = static_cast<int>(decoder_.image_width)};
  }

  void decode(std::span<const std::byte> file, const std::string& name, const ImageRequest& request,
              Image& image) {
    const Reading reading(decoder_);
    openFile(file, name);
    requirePlausibleLength(file.size(), name);
    chooseColours(request, name);
    decoder_.scale_num = eighthsFor(decoder_, request);
    decoder_.scale_denom = 8;
    if (!calculateSize()) refuse(name);
    image.reshape({.channels = request.channels,
                   .height = static_cast<int>(decoder_.output_height),
                   .width = static_cast<int>(decoder_.output_width)});
    row_.resize(std::max(row_.size(), std::size_t{4} * decoder_.output_width));
    if (!readRows(row_.data(), image)) refuse(name);
  }

 private:
  // However reading an image ends, the decoder is ready for the next.
  class Reading {
   public:
    explicit Reading(jpeg_decompress_struct& decoder) : decoder_(decoder) {}
    ~Reading() { jpeg_abort_decompress(&decoder_); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    jpeg_decompress_struct& decoder_;
  };

  [[noreturn]] void refuse(const std::string& name) const {
    refuseImage(name, fmt::format("is a damaged JPEG image ({})", errors_.message.text));
  }

  bool create() {
    if (setjmp(errors_.jump) != 0) return false;  // NOLINT(cert-err52-cpp): as in giveUp
    jpeg_create_decompress(&decoder_);
    return true;
  }

  bool readHeader(std::span<const std::byte> file) {
    if (setjmp(errors_.jump) != 0) return false;  // NOLINT(cert-err52-cpp): as in giveUp
    jpeg_mem_src(&decoder_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&decoder_, TRUE);
    return true;
  }

  bool calculateSize() {
    if (setjmp(errors_.jump) != 0) return false;  // NOLINT(cert-err52-cpp): as in giveUp
    jpeg_calc_output_dimensions(&decoder_);
    return true;
  }

  bool readRows(std::uint8_t* row, Image& image) {
    if (setjmp(errors_.jump) != 0) return false;  // NOLINT(cert-err52-cpp): as in giveUp
    jpeg_start_decompress(&decoder_);
    const bool inks = decoder_.out_color_space == JCS_CMYK;
    const int stored = decoder_.out_color_space == JCS_GRAYSCALE ? 1 : 3;
    while (decoder_.output_scanline < decoder_.output_height) {
      const auto y = static_cast<int>(decoder_.output_scanline);
      jpeg_read_scanlines(&decoder_, &row, 1);
      if (inks) inksToRgb(row, decoder_.output_width, decoder_.saw_Adobe_marker != 0);
      storeRow(row, stored, y, image);
    }
    // Reads on to the end mark: a file that lacks it is noticed here.
    jpeg_finish_decompress(&decoder_);
    return true;
  }

  void openFile(std::span<const std::byte> file, const std::string& name) {
    if (!readHeader(file)) refuse(name);
    requireSaneSize(decoder_.image_height, decoder_.image_width, name);
  }

  // A Huffman code takes one bit at least for each 8x8 block: a short file that announces a huge image gets no memory.
  // Arithmetic codes have no such bound, but no photograph has blocks of an eighth of a bit; what is small may be flat.
  void requirePlausibleLength(std::size_t bytes, const std::string& name) const {
    constexpr std::uint64_t kSmall = 1u << 16;
    const std::uint64_t blocks = std::uint64_t{decoder_.image_height / 8} * (decoder_.image_width / 8);
    const std::uint64_t most =
        decoder_.arith_code == 0 ? std::uint64_t{bytes} * 8 : std::max(std::uint64_t{bytes} * 64, kSmall);
    if (blocks > most) {
      refuseImage(name, fmt::format("is truncated: {} bytes cannot hold the {}x{} pixels that it announces",
                                    bytes, decoder_.image_height, decoder_.image_width));
    }
  }

  void chooseColours(const ImageRequest& request, const std::string& name) {
    switch (decoder_.jpeg_color_space) {
      case JCS_GRAYSCALE:
        decoder_.out_color_space = JCS_GRAYSCALE;
        break;
      case JCS_YCbCr:
      case JCS_RGB:
        decoder_.out_color_space = request.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        break;
      case JCS_CMYK:
      case JCS_YCCK:
        decoder_.out_color_space = JCS_CMYK;
        break;
      default:
        refuseImage(name, fmt::format("is a JPEG image of {} colour components, which have no known meaning",
                                      decoder_.num_components));
    }
  }

  ErrorManager errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct decoder_{};
  std::vector<std::uint8_t> row_;  // of at most four channels
};

JpegDecoder& decoderOfThisThread() {
  thread_local JpegDecoder decoder;
  return decoder;
}

}  // namespace

void decodeJpeg(std::span<const std::byte> file, const std::string& name, const ImageRequest& request,
                Image& image) {
  decoderOfThisThread().decode(file, name, request, image);
}

SampleShape jpegShape(std::span<const std::byte> file, const std::string& name) {
  return decoderOfThisThread().shape(file, name);
}

}  // namespace cohort
