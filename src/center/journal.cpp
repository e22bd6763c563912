#include "center/journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/file_part.h"
#include "base/hash.h"
#include "center/journal_format.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

constexpr std::size_t kBefore = kJournalMagic.size() + sizeof(std::uint32_t);
constexpr std::uint32_t kLargestHead = 64 << 20;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw IoError(fmt::format("{} is damaged: {}", path.string(), why));
}

std::vector<std::byte> bytesOf(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throwFileError("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throwFileError("read", path, errno);
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  readFileAt(file, path, 0, bytes);
  return bytes;
}

// Where the records begin.
std::size_t headSize(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::uint32_t length = 0;
  if (bytes.size() < kBefore) refuse(path, "it is too short");
  if (std::memcmp(bytes.data(), kJournalMagic.data(), kJournalMagic.size()) != 0)
    refuse(path, "it is no journal of a server, or another version's");
  std::memcpy(&length, bytes.data() + kJournalMagic.size(), sizeof(length));
  if (length > kLargestHead || kBefore + length + sizeof(std::uint64_t) > bytes.size())
    refuse(path, "its head is not whole");
  const std::size_t end = kBefore + length;
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + end, sizeof(hash));
  if (hash != hashOnward(bytes.first(end), 0)) refuse(path, "its head does not fit its hash");
  return end + sizeof(hash);
}

JournalHead headOf(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  wire::JournalHead message;
  const std::span<const std::byte> text =
      bytes.subspan(kBefore, bytes.size() - kBefore - sizeof(std::uint64_t));
  if (!message.ParseFromArray(text.data(), static_cast<int>(text.size())))
    refuse(path, "its head cannot be read");
  try {
    JournalHead head{.setup = fromWire(message.setup()),
                     .server = static_cast<int>(message.server()),
                     .servers = static_cast<int>(message.servers()),
                     .life = message.life(),
                     .version = message.version()};
    if (message.has_parent()) head.parent = message.parent();
    constexpr Step kMostSteps = Step{1} << 53;
    constexpr std::uint32_t kMostServers = 1024;
    if (message.servers() < 1 || message.servers() > kMostServers || message.server() >= message.servers() ||
        head.version < 0 || head.version > kMostSteps)
      refuse(path, "it belongs to no server");
    return head;
  } catch (const UsageError&) {
    refuse(path, "its run makes no sense");
  }
}

// Whether there are only zeros from some place in this record on: of a file that had grown when the machine went down.
bool endsInZeros(const JournalHead& head, std::span<const std::byte> record, std::span<const std::byte> all) {
  const auto last = std::find_if(all.rbegin(), all.rend(), [](std::byte b) { return b != std::byte{0}; });
  const std::size_t longest = head.setup.rule.hasOwnWeights ? 4096 : 32;  // of a usual record
  return static_cast<std::size_t>(last - all.rbegin()) + longest > record.size() && last != all.rbegin();
}

}  // namespace

JournalUpdate Journal::operator[](std::size_t index) const {
  const Place& place = updates_[index];
  const Place before = index == 0 ? Place{} : updates_[index - 1];
  return {.member = place.member,
          .step = place.step,
          .basis = place.basis,
          .seen = std::span(seen_).subspan(before.seen, place.seen - before.seen),
          .grains = std::span(grains_).subspan(before.grains, place.grains - before.grains),
          .exchange = place.exchange,
          .steps = std::span(steps_).subspan(before.steps, place.steps - before.steps),
          .begunWith = std::span(begunWith_).subspan(before.begunWith, place.begunWith - before.begunWith),
          .isLeaving = place.isLeaving};
}

void Journal::add(const JournalUpdate& update) {
  seen_.insert(seen_.end(), update.seen.begin(), update.seen.end());
  grains_.insert(grains_.end(), update.grains.begin(), update.grains.end());
  steps_.insert(steps_.end(), update.steps.begin(), update.steps.end());
  begunWith_.insert(begunWith_.end(), update.begunWith.begin(), update.begunWith.end());
  updates_.push_back({.member = update.member,
                      .step = update.step,
                      .basis = update.basis,
                      .seen = seen_.size(),
                      .grains = grains_.size(),
                      .exchange = update.exchange,
                      .steps = steps_.size(),
                      .begunWith = begunWith_.size(),
                      .isLeaving = update.isLeaving});
}

Journal readJournal(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = bytesOf(path);
  const std::size_t begin = headSize(path, bytes);
  const std::span<const std::byte> head = std::span(bytes).first(begin);
  Journal journal(headOf(path, head));
  JournalMemory memory(journal.head(), head);
  std::span<const std::byte> rest = std::span(bytes).subspan(begin);
  while (!rest.empty()) {
    const JournalMemory::Found found = memory.read(rest, journal);
    if (found == JournalMemory::Found::Whole) continue;
    if (found != JournalMemory::Found::Part && !endsInZeros(journal.head(), rest, bytes)) {
      refuse(path, fmt::format("the record of version {}, at byte {}, does not fit its check",
                               journal.end() + 1, bytes.size() - rest.size()));
    }
    journal.leaveOut(rest.size());
    break;
  }
  return journal;
}

std::string journalName(std::uint64_t opening, int server, std::uint64_t life) {
  return fmt::format("{:016x}-{}-{:x}{}", opening, server, life, kJournalSuffix);
}

}  // namespace cohort
