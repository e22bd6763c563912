#include "doctor/directory_check.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kWriting{200};
// Folders of other machines show new files a little later.
constexpr std::chrono::seconds kLooking{3};

// A file that goes with the object, as far as it could be made.
class Mark {
 public:
  explicit Mark(fs::path path) : path_(std::move(path)) {
    file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file_ || ::write(file_.get(), "x", 1) != 1) error_ = systemMessage(errno);
  }
  ~Mark() {
    if (file_) ::unlink(path_.c_str());
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  const std::string& error() const { return error_; }

  // Bytes a second, until they are on the disk.
  double writeRate() {
    const std::vector<char> block(kBlockBytes, 'x');
    const auto start = Clock::now();
    std::size_t written = 0;
    while (written < kMostBytes && Clock::now() - start < kWriting) {
      const ssize_t bytes = ::write(file_.get(), block.data(), block.size());
      if (bytes <= 0) break;
      written += static_cast<std::size_t>(bytes);
    }
    if (written < kBlockBytes || ::fsync(file_.get()) != 0) {
      error_ = systemMessage(errno);
      return 0;
    }
    return static_cast<double>(written) / std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  fs::path path_;
  Descriptor file_;
  std::string error_;
};

fs::path markOf(const fs::path& directory, const std::string& token, int member) {
  return directory / fmt::format(".doctor-{}-{}", token, member);
}

std::vector<int> unseenOf(const fs::path& directory, const std::string& token, std::vector<int> members) {
  const auto end = Clock::now() + kLooking;
  for (;;) {
    std::erase_if(members, [&](int member) {
      std::error_code error;
      return fs::exists(markOf(directory, token, member), error);
    });
    if (members.empty() || Clock::now() >= end) return members;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// The folders that were not there, the innermost first.
std::vector<fs::path> makeFolders(const fs::path& directory) {
  std::vector<fs::path> made;
  std::error_code error;
  for (fs::path path = fs::absolute(directory, error).lexically_normal();
       path.has_relative_path() && !fs::exists(path, error); path = path.parent_path()) {
    if (!path.filename().empty()) made.push_back(path);
  }
  fs::create_directories(directory, error);  // the mark tells what is wrong
  return made;
}

}  // namespace

std::vector<DirectoryFacts> checkDirectory(Meeting& meeting, const fs::path& directory, bool isMeasured) {
  const std::string what = "about the job directory";
  std::vector<fs::path> made;
  if (meeting.place() == 0) made = makeFolders(directory);
  const std::string token = meeting.tell(fmt::format("{:08x}", std::random_device()()), what);
  DirectoryFacts own;
  {
    Mark mark(markOf(directory, token, meeting.place()));
    own.error = mark.error();
    std::vector<int> writers;
    const auto errors = meeting.share(own.error, what);
    for (std::size_t member = 0; member < errors.size(); ++member) {
      if (errors[member] && errors[member]->empty()) writers.push_back(static_cast<int>(member));
    }
    if (own.error.empty()) {
      own.unseen = unseenOf(directory, token, std::move(writers));
      if (isMeasured) own.bytesPerSecond = mark.writeRate();
      own.error = mark.error();
    }
    meeting.share("", what);  // all have looked
  }
  std::vector<DirectoryFacts> all;
  for (const auto& text : meeting.share(toText(own), what)) {
    all.push_back(text ? directoryFactsOf(*text) : DirectoryFacts{});
  }
  std::error_code error;
  for (const fs::path& path : made) fs::remove(path, error);
  return all;
}

}  // namespace cohort
