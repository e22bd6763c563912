// A server's journal, with checks set right: nothing behind them would be reached otherwise.
#include <algorithm>
#include <cstring>
#include <vector>

#include <google/protobuf/stubs/logging.h>

#include "base/hash.h"
#include "center/journal_format.h"
#include "center/setup_wire.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace cohort;

constexpr std::size_t kBefore = 12;  // the name of the format, and the head's length

// Makes the head's length and hash fit, and the records' checks as far as they can be read.
void repair(std::span<std::byte> file) {
  if (file.size() < kBefore + sizeof(std::uint64_t)) return;
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + kJournalMagic.size(), sizeof(length));
  length = static_cast<std::uint32_t>(
      std::min<std::size_t>(length, file.size() - kBefore - sizeof(std::uint64_t)));
  std::memcpy(file.data() + kJournalMagic.size(), &length, sizeof(length));
  const std::uint64_t hash = hashOnward(file.first(kBefore + length), 0);
  std::memcpy(file.data() + kBefore + length, &hash, sizeof(hash));
  wire::JournalHead message;
  if (!message.ParseFromArray(file.data() + kBefore, static_cast<int>(length))) return;
  try {
    Journal journal({.setup = fromWire(message.setup()),
                     .server = static_cast<int>(message.server()),
                     .servers = static_cast<int>(message.servers()),
                     .life = message.life(),
                     .version = message.version()});
    if (message.servers() < 1 || message.servers() > 1024 || message.server() >= message.servers()) return;
    const std::size_t begin = kBefore + length + sizeof(hash);
    JournalMemory memory(journal.head(), file.first(begin));
    std::span<const std::byte> rest = file.subspan(begin);
    while (!rest.empty()) {
      JournalMemory::Found found = memory.read(rest, journal);
      if (found == JournalMemory::Found::WrongCheck) {
        std::byte* record = file.data() + (file.size() - rest.size());
        std::memcpy(record + memory.lastCheck().at, &memory.lastCheck().value, sizeof(std::uint16_t));
        found = memory.read(rest, journal);
      }
      if (found != JournalMemory::Found::Whole) return;
    }
  } catch (const UsageError&) {
    return;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer kQuiet;
  const InputFile file({data, size});
  isAccepted(file.path(), [&] {
    const Journal journal = readJournal(file.path());
    if (journal.torn() > size) failFuzzing("More is left out than there is.");
    // What was read is written again, and read again.
    const std::vector<std::byte> head = journalHead(journal.head());
    JournalMemory writing(journal.head(), head);
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < journal.size(); ++i) writing.write(journal[i], bytes);
    Journal again(journal.head());
    JournalMemory reading(journal.head(), head);
    std::span<const std::byte> rest(bytes);
    while (!rest.empty()) {
      if (reading.read(rest, again) != JournalMemory::Found::Whole)
        failFuzzing("What was written cannot be read.");
    }
    if (again.size() != journal.size()) failFuzzing("Updates are lost.");
    for (std::size_t i = 0; i < journal.size(); ++i) {
      const JournalUpdate one = journal[i];
      const JournalUpdate other = again[i];
      if (one.step != other.step || one.basis != other.basis || !std::ranges::equal(one.seen, other.seen) ||
          !std::ranges::equal(one.grains, other.grains) || one.exchange != other.exchange ||
          !std::ranges::equal(one.steps, other.steps) || !std::ranges::equal(one.begunWith, other.begunWith))
        failFuzzing("An update is another one now.");
    }
  });
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  size = LLVMFuzzerMutate(data, size, maxSize);
  if (seed % 8 != 0) repair(std::as_writable_bytes(std::span(data, size)));
  return size;
}
