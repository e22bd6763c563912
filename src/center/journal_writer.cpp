#include "center/journal_writer.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

void JournalWriter::begin(const JournalHead& head) {
  constexpr std::size_t kRoom = 4096;
  end();
  path_ = folder_ / journalName(head.setup.opening, head.server, head.life);
  std::error_code ignored;  // opening the file says why
  std::filesystem::create_directories(folder_, ignored);
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) return fail(errno);
  waiting_ = journalHead(head);
  memory_.emplace(head, waiting_);
  members_.clear();
  waiting_.reserve(waiting_.size() + kRoom);
  flush();
}

void JournalWriter::add(const JournalUpdate& update, std::uint64_t token) {
  if (!file_) return;
  if (update.member >= 0 && members_.insert(update.member).second)
    memory_->write(Journal::Member{.member = update.member, .token = token}, waiting_);
  memory_->write(update, waiting_);
}

void JournalWriter::flush() {
  std::size_t done = 0;
  while (file_ && done < waiting_.size()) {
    const ssize_t written = ::write(file_.get(), waiting_.data() + done, waiting_.size() - done);
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
  waiting_.clear();
}

void JournalWriter::end() {
  flush();
  file_ = Descriptor();
}

void JournalWriter::fail(int error) {
  file_ = Descriptor();
  warn_(fmt::format("the journal {} ends here, and a replay with it: {}", path_.string(),
                    systemMessage(error)));
}

}  // namespace cohort
