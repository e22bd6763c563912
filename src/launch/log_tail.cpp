#include "launch/log_tail.h"

#include <algorithm>
#include <fstream>
#include <utility>

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::uintmax_t sizeOf(const fs::path& file) {
  std::error_code none;
  const std::uintmax_t size = fs::file_size(file, none);
  return none ? 0 : size;
}

// What stands between two places; less where it cannot be read.
std::string textOf(const fs::path& file, std::uintmax_t begin, std::uintmax_t end) {
  std::string text(end - begin, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(begin));
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, stream.gcount())));
  return text;
}

}  // namespace

LogTail::LogTail(fs::path file) : file_(std::move(file)), at_(sizeOf(file_)) {}

void LogTail::show(Screen& screen) {
  const std::uintmax_t end = sizeOf(file_);
  if (end <= at_) return;
  const std::string text = textOf(file_, at_, end);
  at_ += text.size();
  unfinished_ += text;
  std::size_t begin = 0;
  for (std::size_t stop = unfinished_.find('\n'); stop != std::string::npos;
       stop = unfinished_.find('\n', begin)) {
    screen.result(unfinished_.substr(begin, stop - begin));
    begin = stop + 1;
  }
  unfinished_.erase(0, begin);
}

std::string lastLine(const fs::path& file, std::uintmax_t begin) {
  constexpr std::uintmax_t kMost = 4096;
  const std::uintmax_t end = sizeOf(file);
  if (end <= begin) return "";
  const std::string text = textOf(file, std::max(begin, end - std::min(end, kMost)), end);
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return "";
  const std::size_t before = text.find_last_of('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return text.substr(first, last + 1 - first);
}

}  // namespace cohort
