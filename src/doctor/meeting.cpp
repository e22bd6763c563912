#include "doctor/meeting.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "cluster/address.h"
#include "doctor/socket.h"

namespace cohort {
namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::optional<std::string>>;

// For everything that follows once all are there: the longest of it is a folder that answers late.
constexpr double kShareSeconds = 120;
constexpr double kGreetingSeconds = 2;
constexpr double kProbeSeconds = 1;

std::string packed(const Texts& texts) {
  Json list = Json::array();
  for (const std::optional<std::string>& text : texts) list.push_back(text ? Json(*text) : Json());
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Texts unpacked(const std::string& text) {
  Texts texts;
  try {
    for (const Json& entry : Json::parse(text)) {
      texts.push_back(entry.is_null() ? std::nullopt : std::optional(entry.get<std::string>()));
    }
  } catch (const Json::exception&) {
    throw PeerError("the first process tells what is no text of cohort doctor; give all the same program");
  }
  return texts;
}

class AloneMeeting : public Meeting {
 public:
  int place() const override { return 0; }
  int size() const override { return 1; }
  Texts share(const std::string& text, const std::string&) override { return {text}; }
};

class ChannelMeeting : public Meeting {
 public:
  explicit ChannelMeeting(const Channel& channel) : channel_(channel) {}
  int place() const override { return channel_.workers().rank(); }
  int size() const override { return channel_.workers().size(); }
  Texts share(const std::string& text, const std::string& what) override {
    const std::vector<std::string> heard = channel_.gather(text, what);
    return unpacked(channel_.broadcast(packed({heard.begin(), heard.end()}), what));
  }

 private:
  const Channel& channel_;
};

// ---- at addresses

std::string placeText(const Member& member) {
  return fmt::format("{} at {}", nameOf(member), toText(Address{member.host, member.port.value_or(0)}));
}

// The same for all who were given the same cluster.
std::string greetingOf(const ClusterMap& cluster, std::size_t place) {
  std::string names;
  for (const Member& member : cluster.members) names += placeText(member) + "\n";
  return fmt::format("cohort doctor, {:016x}, {}", hashName(names), place);
}

class FirstMeeting : public Meeting {
 public:
  explicit FirstMeeting(std::vector<Descriptor> others) : others_(std::move(others)) {}
  int place() const override { return 0; }
  int size() const override { return static_cast<int>(others_.size()); }
  Texts share(const std::string& text, const std::string&) override {
    const Deadline deadline = deadlineIn(kShareSeconds);
    Texts texts(others_.size());
    texts[0] = text;
    withEach(
        [&](std::size_t place, const Descriptor& other) { texts[place] = receiveFrame(other, deadline); });
    const std::string all = packed(texts);
    withEach([&](std::size_t, const Descriptor& other) { sendFrame(other, all, deadline); });
    return texts;
  }

 private:
  // Who does not answer any more has gone.
  template <class Do>
  void withEach(const Do& act) {
    for (std::size_t place = 1; place < others_.size(); ++place) {
      if (!others_[place]) continue;
      try {
        act(place, others_[place]);
      } catch (const PeerError&) {
        others_[place] = Descriptor();
      }
    }
  }

  std::vector<Descriptor> others_;  // by place; the first is nothing
};

class OtherMeeting : public Meeting {
 public:
  OtherMeeting(Descriptor first, std::string name, int place, int size)
      : first_(std::move(first)), name_(std::move(name)), place_(place), size_(size) {}
  int place() const override { return place_; }
  int size() const override { return size_; }
  Texts share(const std::string& text, const std::string& what) override {
    try {
      sendFrame(first_, text, deadlineIn(kShareSeconds));
      return unpacked(receiveFrame(first_, deadlineIn(kShareSeconds)));
    } catch (const PeerError& error) {
      throw PeerError(fmt::format("{} does not answer any more ({}: {})", name_, what, error.what()));
    }
  }

 private:
  Descriptor first_;
  std::string name_;
  int place_;
  int size_;
};

// The one who comes, where it is one of this cluster that was not there yet; others are let go.
void welcome(const ClusterMap& cluster, Descriptor comer, std::vector<Descriptor>& others) {
  try {
    const std::string greeting = receiveFrame(comer, deadlineIn(kGreetingSeconds));
    for (std::size_t place = 1; place < others.size(); ++place) {
      if (others[place] || greeting != greetingOf(cluster, place)) continue;
      others[place] = std::move(comer);
      return;
    }
    sendFrame(comer, "another cluster", deadlineIn(kGreetingSeconds));
  } catch (const PeerError&) {
    return;
  }
}

// What one more try tells of somebody who did not come.
std::string reasonOf(const Member& member) {
  const Resolved name = resolve({member.host}, deadlineIn(kProbeSeconds)).front();
  if (name.addresses.empty()) return fmt::format("{}: {}", member.host, name.error);
  std::string error;
  if (connectTo(name.addresses.front(), member.port.value_or(0), deadlineIn(kProbeSeconds), error)) {
    return "its port answers: it may not reach the first one, or runs something else";
  }
  return error;
}

std::vector<Missing> missingOf(const ClusterMap& cluster, const std::vector<Descriptor>& others) {
  std::vector<Missing> missing;
  for (std::size_t place = 1; place < others.size(); ++place) {
    if (others[place]) continue;
    missing.push_back(
        {.member = static_cast<int>(place), .name = placeText(cluster.members[place]), .reason = {}});
  }
  std::vector<std::jthread> tries;
  tries.reserve(missing.size());
  for (Missing& one : missing) {
    tries.emplace_back(
        [&one, &cluster] { one.reason = reasonOf(cluster.members[static_cast<std::size_t>(one.member)]); });
  }
  tries.clear();  // when they are done
  return missing;
}

void meetAsFirst(const ClusterMap& cluster, Deadline deadline, NamedMeeting& met) {
  std::vector<Descriptor> others(cluster.members.size());
  const auto isMissing = [&] {
    return std::any_of(others.begin() + 1, others.end(), [](const Descriptor& other) { return !other; });
  };
  while (isMissing()) {
    Descriptor comer = acceptAt(met.listener, deadline);
    if (!comer) break;
    welcome(cluster, std::move(comer), others);
  }
  met.missing = missingOf(cluster, others);
  for (Descriptor& other : others) {
    if (other) sendFrame(other, "welcome", deadlineIn(kGreetingSeconds));
  }
  met.meeting = std::make_unique<FirstMeeting>(std::move(others));
}

void meetAsOther(const ClusterMap& cluster, Deadline deadline, double seconds, NamedMeeting& met) {
  const Member& first = cluster.members.front();
  Resolved name;
  std::string error;
  for (;;) {
    if (name.addresses.empty()) name = resolve({first.host}, deadline).front();
    Descriptor socket;
    if (name.addresses.empty()) {
      error = name.error;
    } else {
      socket = connectTo(name.addresses.front(), first.port.value_or(0), deadline, error);
    }
    if (socket) {
      try {
        sendFrame(socket, greetingOf(cluster, cluster.me), deadlineIn(kGreetingSeconds));
        // It answers when all are there, or its own patience is over.
        const std::string answer = receiveFrame(socket, deadlineIn(2 * seconds + kGreetingSeconds));
        if (answer != "welcome") {
          throw UsageError(fmt::format("{} was given another cluster than this process; give all the same",
                                       placeText(first)));
        }
        met.meeting =
            std::make_unique<OtherMeeting>(std::move(socket), placeText(first), static_cast<int>(cluster.me),
                                           static_cast<int>(cluster.members.size()));
        return;
      } catch (const PeerError& failure) {
        error = failure.what();
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw PeerError(
      fmt::format("{} did not answer within {:g} s ({}): start cohort doctor there too, or open the port",
                  placeText(first), seconds, error));
}

}  // namespace

std::string Meeting::tell(const std::string& text, const std::string& what) {
  const Texts texts = share(place() == 0 ? text : "", what);
  if (texts.empty() || !texts.front())
    throw PeerError(fmt::format("the first process does not tell {}", what));
  return *texts.front();
}

std::unique_ptr<Meeting> aloneMeeting() {
  return std::make_unique<AloneMeeting>();
}

std::unique_ptr<Meeting> channelMeeting(const Channel& channel) {
  return std::make_unique<ChannelMeeting>(channel);
}

NamedMeeting meetAt(const ClusterMap& cluster, double seconds) {
  NamedMeeting met;
  met.listener = listenAt(cluster.self().port.value_or(0), met.portError);
  const Deadline deadline = deadlineIn(seconds);
  if (cluster.members.size() == 1) {
    met.meeting = aloneMeeting();
  } else if (cluster.me != 0) {
    meetAsOther(cluster, deadline, seconds, met);
  } else if (!met.listener) {
    throw PeerError(fmt::format("{} cannot listen at its port ({}): end what has it, or choose another",
                                placeText(cluster.self()), met.portError));
  } else {
    meetAsFirst(cluster, deadline, met);
  }
  return met;
}

}  // namespace cohort
