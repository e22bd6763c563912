#include "center/journal_format.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

// Others can be added: no reader takes what it does not know.
enum class Kind : std::uint64_t {
  AtOnce = 0,
  Anew = 1,
  Whole = 2,
  Commit = 3,
  Member = 4,
  Steps = 5,
  Begun = 6,
  Left = 7
};
constexpr int kKindBits = 3;
constexpr std::uint64_t kKindMask = (1U << kKindBits) - 1;
constexpr std::size_t kCheckBytes = 2;
constexpr Step kMostSteps = Step{1} << 53;

void put(std::uint64_t number, std::vector<std::byte>& out) {
  constexpr std::uint64_t kMore = 0x80;
  for (; number >= kMore; number >>= 7U) out.push_back(static_cast<std::byte>(number | kMore));
  out.push_back(static_cast<std::byte>(number));
}

// 0, -1, 1, -2, 2 … -> 0, 1, 2, 3, 4 …
std::uint64_t folded(std::int64_t number) {
  return (static_cast<std::uint64_t>(number) << 1U) ^ static_cast<std::uint64_t>(number >> 63);
}

std::int64_t unfolded(std::uint64_t number) {
  return static_cast<std::int64_t>(number >> 1U) ^ -static_cast<std::int64_t>(number & 1U);
}

void putHead(Kind kind, MemberId member, std::vector<std::byte>& out) {
  put(static_cast<std::uint64_t>(member) << kKindBits | static_cast<std::uint64_t>(kind), out);
}

}  // namespace

// Takes the fields of a record; remembers where one was not whole or made no sense.
class RecordReader {
 public:
  using Found = JournalMemory::Found;

  RecordReader(const JournalMemory& memory, std::span<const std::byte> bytes)
      : memory_(memory), bytes_(bytes) {}

  Found found() const { return found_; }
  std::size_t taken() const { return at_; }
  std::span<const std::byte> rest() const { return bytes_.subspan(at_); }

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) return fail(Found::Part);
      const auto byte = std::to_integer<std::uint64_t>(bytes_[at_++]);
      value |= (byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    return fail(Found::Nonsense);
  }
  // A step or version, which is so far from another.
  Step near(Step other, std::int64_t distance) {
    const bool isNear = distance >= -kMostSteps && distance <= kMostSteps;
    const Step step = isNear ? other + distance : -1;
    return step >= 0 && step <= kMostSteps ? step : static_cast<Step>(fail(Found::Nonsense));
  }
  Step near(Step other) { return near(other, unfolded(number())); }
  void require(bool makesSense) {
    if (!makesSense) fail(Found::Nonsense);
  }

  void takeSeen(Kind kind, std::vector<ServerVersion>& seen) {
    for (std::size_t i = 0; i < seen.size() && found_ == Found::Whole; ++i) {
      if (kind == Kind::Anew) {
        seen[i].life = number();
        seen[i].version = near(seen[i].version);
      } else if (i == memory_.own_) {
        const std::uint64_t between = number();
        require(between <= static_cast<std::uint64_t>(memory_.version_));
        seen[i].version = near(memory_.version_, -static_cast<std::int64_t>(between));
      } else {
        seen[i].version = near(seen[i].version);
      }
    }
  }
  // All but the last of an exchange's.
  std::vector<Step> takeSteps(Step other) {
    std::vector<Step> steps;
    const std::uint64_t count = number();
    for (std::uint64_t i = 0; i < count && found_ == Found::Whole; ++i) steps.push_back(other = near(other));
    return steps;
  }
  std::vector<ServerVersion> takeVersions(std::size_t count) {
    std::vector<ServerVersion> versions;
    for (std::size_t i = 0; i < count && found_ == Found::Whole; ++i) {
      const std::uint64_t life = number();
      versions.push_back({life, near(memory_.version_)});
    }
    return versions;
  }
  // Ranges in order, which do not touch.
  std::vector<GrainRange> takeGrains() {
    std::vector<GrainRange> grains;
    const std::uint64_t count = number();
    require(count >= 1 && count <= static_cast<std::uint64_t>(memory_.grains_));
    int at = 0;
    for (std::uint64_t i = 0; i < count && found_ == Found::Whole; ++i) {
      GrainRange range;
      range.first = at + below(memory_.grains_);
      range.last = range.first + 1 + below(memory_.grains_);
      require(range.last <= memory_.grains_);
      at = range.last;
      grains.push_back(range);
    }
    return grains;
  }

 private:
  int below(int bound) {
    const std::uint64_t value = number();
    require(value < static_cast<std::uint64_t>(bound));
    return found_ == Found::Whole ? static_cast<int>(value) : 0;
  }
  std::uint64_t fail(Found why) {
    if (found_ == Found::Whole) found_ = why;
    return 0;
  }

  const JournalMemory& memory_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  Found found_ = Found::Whole;
};

std::vector<std::byte> journalHead(const JournalHead& head) {
  wire::JournalHead message;
  *message.mutable_setup() = toWire(head.setup);
  message.set_server(static_cast<std::uint32_t>(head.server));
  message.set_servers(static_cast<std::uint32_t>(head.servers));
  message.set_life(head.life);
  message.set_version(head.version);
  if (head.parent) message.set_parent(*head.parent);
  const std::string text = message.SerializeAsString();
  const auto length = static_cast<std::uint32_t>(text.size());
  std::uint64_t hash = 0;
  std::vector<std::byte> bytes(kJournalMagic.size() + sizeof(length) + text.size() + sizeof(hash));
  std::byte* at = bytes.data();
  const auto append = [&at](const void* from, std::size_t size) {
    std::memcpy(at, from, size);
    at += size;
  };
  append(kJournalMagic.data(), kJournalMagic.size());
  append(&length, sizeof(length));
  append(text.data(), text.size());
  hash = hashOnward(std::span(bytes).first(bytes.size() - sizeof(hash)), 0);
  append(&hash, sizeof(hash));
  return bytes;
}

JournalMemory::JournalMemory(const JournalHead& head, std::span<const std::byte> before)
    : acceptance_(acceptanceOf(head.setup.rule)),
      hasOwnWeights_(head.setup.rule.hasOwnWeights),
      hasMail_(applicationOf(head.setup.rule) == Application::Mail),
      grains_(head.setup.grains),
      own_(static_cast<std::size_t>(head.server)),
      chain_(hashOnward(before, 0)),
      version_(head.version),
      step_(head.version),
      seen_(acceptance_ == Acceptance::AtOnce ? static_cast<std::size_t>(head.servers) : 0,
            ServerVersion{.life = 0, .version = head.version}) {
  if (!seen_.empty()) seen_[own_].life = head.life;
}

void JournalMemory::close(std::vector<std::byte>& out, std::size_t begin) {
  chain_ = hashOnward(std::span(out).subspan(begin), chain_);
  for (std::size_t i = 0; i < kCheckBytes; ++i) out.push_back(static_cast<std::byte>(chain_ >> 8 * i));
}

void JournalMemory::write(const Journal::Member& member, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  putHead(Kind::Member, member.member, out);
  put(member.token, out);
  close(out, begin);
}

bool JournalMemory::isUsual(const JournalUpdate& update) const {
  const Step own = update.seen[own_].version;
  return own <= version_ && own == update.basis &&
         std::ranges::equal(update.seen, seen_, {}, &ServerVersion::life, &ServerVersion::life);
}

void JournalMemory::writeOwn(const JournalUpdate& update, std::vector<std::byte>& out) {
  COHORT_CHECK(update.exchange >= 1 && !update.steps.empty() && update.steps.back() == update.step &&
                   update.begunWith.size() == (update.exchange == 1 ? seen_.size() : 0),
               "an exchange has its steps");
  std::size_t begin = out.size();
  putHead(Kind::Steps, update.member, out);
  put(folded(update.exchange), out);
  put(update.steps.size() - 1, out);
  Step before = step_;
  for (const Step step : update.steps.first(update.steps.size() - 1)) {
    put(folded(step - before), out);
    before = step;
  }
  close(out, begin);
  if (update.begunWith.empty()) return;
  begin = out.size();
  putHead(Kind::Begun, update.member, out);
  for (const ServerVersion& server : update.begunWith) {
    put(server.life, out);
    put(folded(server.version - version_), out);
  }
  close(out, begin);
}

void JournalMemory::writeAtOnce(const JournalUpdate& update, std::vector<std::byte>& out) const {
  const Kind kind = isUsual(update) ? Kind::AtOnce : Kind::Anew;
  putHead(kind, update.member, out);
  put(folded(update.step - step_), out);
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const ServerVersion& seen = update.seen[i];
    if (kind == Kind::Anew) put(seen.life, out);
    if (kind == Kind::AtOnce && i == own_) {
      put(static_cast<std::uint64_t>(version_ - seen.version), out);
    } else {
      put(folded(seen.version - seen_[i].version), out);
    }
  }
  if (kind == Kind::Anew) put(folded(update.basis - version_), out);
}

void JournalMemory::writeLeaving(MemberId member, std::vector<std::byte>& out) {
  COHORT_CHECK(hasMail_, "only who has mail is missed");
  const std::size_t begin = out.size();
  putHead(Kind::Left, member, out);
  close(out, begin);
  ++version_;
}

void JournalMemory::write(const JournalUpdate& update, std::vector<std::byte>& out) {
  if (update.isLeaving) return writeLeaving(update.member, out);
  COHORT_CHECK(update.seen.size() == seen_.size(), "an update names the weights of all servers, or of none");
  if (hasOwnWeights_) writeOwn(update, out);
  const std::size_t begin = out.size();
  if (acceptance_ == Acceptance::AtOnce) {
    writeAtOnce(update, out);
  } else if (update.grains.empty()) {
    putHead(Kind::Whole, 0, out);
  } else {
    putHead(Kind::Commit, 0, out);
    put(update.grains.size(), out);
    int at = 0;
    for (const GrainRange& range : update.grains) {
      put(static_cast<std::uint64_t>(range.first - at), out);
      put(static_cast<std::uint64_t>(range.count() - 1), out);
      at = range.last;
    }
  }
  close(out, begin);
  remember(update);
}

void JournalMemory::remember(const JournalUpdate& update) {
  std::ranges::copy(update.seen, seen_.begin());
  step_ = update.step;
  ++version_;
}

// Whether this member's update has what it needs before it.
bool JournalMemory::isExchangeOf(MemberId member) const {
  if (!hasOwnWeights_) return true;
  return exchange_.number >= 1 && exchange_.member == member &&
         exchange_.begunWith.size() == (exchange_.number == 1 ? seen_.size() : 0);
}

// What a record says, before its check is looked at.
struct JournalMemory::Record {
  Kind kind{};
  JournalUpdate update{};
  std::uint64_t token = 0;
  std::vector<ServerVersion> seen{};
  std::vector<GrainRange> grains{};
  Exchange exchange{};
};

JournalMemory::Record JournalMemory::parse(RecordReader& reader) const {
  Record record{.exchange = exchange_};
  const std::uint64_t head = reader.number();
  record.kind = static_cast<Kind>(head & kKindMask);
  const std::uint64_t member = head >> kKindBits;
  reader.require(member <= static_cast<std::uint64_t>(std::numeric_limits<MemberId>::max()));
  JournalUpdate& update = record.update;
  update = {.member = static_cast<MemberId>(member), .step = version_, .basis = version_};
  const bool isAlone = acceptance_ == Acceptance::AtOnce;
  switch (record.kind) {
    case Kind::Member:
      record.token = reader.number();
      break;
    case Kind::AtOnce:
    case Kind::Anew:
      reader.require(isAlone && isExchangeOf(update.member));
      update.step = reader.near(step_);
      record.seen = seen_;
      reader.takeSeen(record.kind, record.seen);
      if (isAlone)
        update.basis = record.kind == Kind::Anew ? reader.near(version_) : record.seen[own_].version;
      break;
    case Kind::Whole:
      reader.require(!isAlone && member == 0);
      break;
    case Kind::Commit:
      reader.require(acceptance_ == Acceptance::OnCommit && member == 0);
      record.grains = reader.takeGrains();
      break;
    case Kind::Steps:
      reader.require(hasOwnWeights_ && exchange_.number == 0);
      record.exchange.member = update.member;
      record.exchange.number = reader.near(0);
      reader.require(record.exchange.number >= 1);
      record.exchange.steps = reader.takeSteps(step_);
      break;
    case Kind::Begun:
      reader.require(exchange_.number == 1 && exchange_.member == update.member &&
                     exchange_.begunWith.empty());
      record.exchange.begunWith = reader.takeVersions(seen_.size());
      break;
    case Kind::Left:
      reader.require(hasMail_ && exchange_.number == 0);
      update.isLeaving = true;
      break;
    default:
      reader.require(false);
  }
  return record;
}

JournalMemory::Found JournalMemory::read(std::span<const std::byte>& bytes, Journal& journal) {
  RecordReader reader(*this, bytes);
  Record record = parse(reader);
  if (reader.found() != Found::Whole) return reader.found();
  if (reader.rest().size() < kCheckBytes) return Found::Part;
  const std::uint64_t chain = hashOnward(bytes.first(reader.taken()), chain_);
  check_ = {.at = reader.taken(), .value = static_cast<std::uint16_t>(chain)};
  for (std::size_t i = 0; i < kCheckBytes; ++i) {
    if (reader.rest()[i] != static_cast<std::byte>(chain >> 8 * i)) return Found::WrongCheck;
  }
  chain_ = chain;
  bytes = reader.rest().subspan(kCheckBytes);
  JournalUpdate& update = record.update;
  if (record.kind == Kind::Member) {
    journal.add(Journal::Member{.member = update.member, .token = record.token});
    return Found::Whole;
  }
  if (record.kind == Kind::Steps || record.kind == Kind::Begun) {
    exchange_ = std::move(record.exchange);
    return Found::Whole;
  }
  if (update.isLeaving) {
    journal.add(update);
    ++version_;
    return Found::Whole;
  }
  if (hasOwnWeights_) record.exchange.steps.push_back(update.step);
  if (acceptance_ != Acceptance::AtOnce) update.member = -1;
  update.seen = record.seen;
  update.grains = record.grains;
  update.exchange = record.exchange.number;
  update.steps = record.exchange.steps;
  update.begunWith = record.exchange.begunWith;
  journal.add(update);
  exchange_ = {};
  remember(update);
  return Found::Whole;
}

}  // namespace cohort
