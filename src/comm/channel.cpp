#include "comm/channel.h"

#include <cstdint>

#include "base/error.h"

namespace cohort {
namespace {

constexpr std::uint64_t kLongestText = std::uint64_t{1} << 30;

std::span<std::byte> bytesOf(std::uint64_t& number) {
  return std::as_writable_bytes(std::span(&number, 1));
}

}  // namespace

Channel::Channel(Communicator& workers, int number)
    : workers_(workers), lengthTag_(Communicator::kTags + 2 * number), textTag_(lengthTag_ + 1) {}

void Channel::send(int to, const std::string& text, const std::string& what) const {
  std::uint64_t length = text.size();
  workers_.transferNow({Message::Direction::Send, to, lengthTag_, bytesOf(length)}, what);
  if (text.empty()) return;
  std::string copy = text;  // a message's memory is not const
  workers_.transferNow({Message::Direction::Send, to, textTag_, std::as_writable_bytes(std::span(copy))},
                       what);
}

std::string Channel::receive(int from, const std::string& what) const {
  std::uint64_t length = 0;
  workers_.transferNow({Message::Direction::Receive, from, lengthTag_, bytesOf(length)}, what);
  COHORT_CHECK(length <= kLongestText, "a text between workers is short");
  std::string text(length, '\0');
  if (text.empty()) return text;
  workers_.transferNow({Message::Direction::Receive, from, textTag_, std::as_writable_bytes(std::span(text))},
                       what);
  return text;
}

std::vector<std::string> Channel::gather(const std::string& text, const std::string& what) const {
  if (!workers_.isFirst()) {
    send(0, text, what);
    return {};
  }
  std::vector<std::string> texts{text};
  for (int from = 1; from < workers_.size(); ++from) texts.push_back(receive(from, what));
  return texts;
}

std::string Channel::broadcast(const std::string& text, const std::string& what) const {
  if (!workers_.isFirst()) return receive(0, what);
  for (int to = 1; to < workers_.size(); ++to) send(to, text, what);
  return text;
}

void Channel::barrier(const std::string& what) const {
  gather("", what);
  broadcast("", what);
}

}  // namespace cohort
