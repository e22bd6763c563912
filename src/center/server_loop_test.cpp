// The thread of a real server, with links and a clock that are played here.
#include "center/server_loop.h"

#include <atomic>
#include <future>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "center/local_connector.h"
#include "center/test_center.h"

namespace cohort {
namespace {

using What = wire::Envelope::WhatCase;

// Remembers what the server does with it. Thread-safe.
class PlayedLink : public Link {
 public:
  void send(const wire::Envelope& head, std::span<const float>, std::shared_ptr<const void>) override {
    const std::lock_guard lock(mutex_);
    if (throws) throw std::bad_alloc();
    heard_.push_back(head);
    changed_.notify_all();
  }
  void close() override { count(closed_); }
  void cut() override { count(cut_); }

  // Waits for the next answer of a kind.
  wire::Envelope await(What what) {
    std::unique_lock lock(mutex_);
    for (;;) {
      for (; next_ < heard_.size(); ++next_) {
        if (heard_[next_].what_case() == what) return heard_[next_++];
      }
      changed_.wait(lock);
    }
  }
  void awaitClosed() { awaitOne(closed_); }
  void awaitCut() { awaitOne(cut_); }
  bool isClosed() {
    const std::lock_guard lock(mutex_);
    return closed_ + cut_ > 0;
  }
  bool isCut() {
    const std::lock_guard lock(mutex_);
    return cut_ > 0;
  }

  std::atomic<bool> throws = false;

 private:
  void count(int& times) {
    const std::lock_guard lock(mutex_);
    ++times;
    changed_.notify_all();
  }
  void awaitOne(const int& times) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return times > 0; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<wire::Envelope> heard_;
  std::size_t next_ = 0;
  int closed_ = 0;
  int cut_ = 0;
};

struct Looping : testing::Test {
  struct Peer {
    LinkId id = 0;
    std::shared_ptr<PlayedLink> link = std::make_shared<PlayedLink>();
  };

  void start(std::unique_ptr<SnapshotWriter> snapshots = nullptr, const Center::Place& place = {}) {
    loop.emplace(place, std::move(snapshots),
                 [this] { return Clock::time_point(std::chrono::milliseconds(now.load())); });
    watcher = open();
  }
  Peer open() {
    Peer peer{.id = loop->inbox().newLink()};
    loop->inbox().put({.kind = Incoming::Kind::Opened, .link = peer.id, .opened = peer.link});
    return peer;
  }
  void say(const Peer& peer, const wire::Envelope& word, const std::vector<float>& floats = {}) {
    loop->inbox().put({.kind = Incoming::Kind::Received,
                       .link = peer.id,
                       .message = {.head = word, .payload = payloadOf(std::as_bytes(std::span(floats)))}});
  }
  // All that was said before was heard, and what follows from it has happened.
  void settle() {
    for (int i = 0; i < 2; ++i) {
      say(watcher, statusRequest());
      watcher.link->await(What::kStatus);
    }
  }
  static wire::Envelope statusRequest() {
    wire::Envelope word;
    word.mutable_ask_status();
    return word;
  }
  // A run by this peer, which enters.
  void openRun(const Peer& peer, const CenterSetup& setup) {
    say(peer, words::setup(setup));
    say(peer, words::load(kWeights), std::vector<float>(kTinySize));
    say(peer, words::load("momentum"), std::vector<float>(kTinySize));
    say(peer, words::loaded());
    say(peer, words::enter());
    peer.link->await(What::kAssign);
  }

  std::atomic<std::int64_t> now = 1'000'000;  // ms
  std::optional<ServerLoop> loop;
  Peer watcher;
};

TEST_F(Looping, WhatThrowsCostsTheSenderItsLinkAlone) {
  start();
  const Peer bad = open();
  bad.link->throws = true;
  say(bad, words::hello({.token = 1}));
  bad.link->awaitClosed();
  const Peer good = open();
  say(good, words::hello({.token = 2}));
  EXPECT_FALSE(good.link->await(What::kWelcome).welcome().is_open());
  EXPECT_FALSE(good.link->isClosed());
}

TEST_F(Looping, WhoIsRefusedIsHeardNoMore) {
  start();
  const Peer bad = open();
  say(bad, words::enter());
  say(bad, words::hello({.token = 1}));
  EXPECT_EQ(bad.link->await(What::kRefused).refused().sentence(), "the first word is a greeting");
  bad.link->awaitClosed();
  settle();
  EXPECT_FALSE(loop->hasMembers());
}

TEST_F(Looping, TooManyMessagesInASecondCostTheLink) {
  start();
  const Peer fast = open();
  const Peer steady = open();
  const int most = ServerLoop::kMostMessages;
  for (int i = 0; i < most; ++i) say(fast, statusRequest());
  for (int i = 0; i < most; ++i) say(steady, statusRequest());
  settle();
  EXPECT_FALSE(fast.link->isClosed());
  say(fast, statusRequest());
  EXPECT_EQ(fast.link->await(What::kRefused).refused().sentence(), "it sends too many messages");
  fast.link->awaitClosed();
  now += 1001;
  for (int i = 0; i < most; ++i) say(steady, statusRequest());
  settle();
  EXPECT_FALSE(steady.link->isClosed());
}

TEST_F(Looping, WhoDoesNotGreetIsRefused) {
  start();
  const Peer silent = open();
  const Peer curious = open();  // asks, and stays
  const Peer worker = open();
  say(worker, words::hello({.token = 1}));
  say(curious, statusRequest());
  curious.link->await(What::kStatus);
  now += 20'000;
  settle();
  EXPECT_FALSE(silent.link->isClosed());
  now += 1'000;
  EXPECT_EQ(silent.link->await(What::kRefused).refused().sentence(), "it has not greeted");
  silent.link->awaitClosed();
  curious.link->awaitClosed();
  now += 100'000;
  const Peer later = open();
  say(later, statusRequest());
  later.link->await(What::kStatus);
  EXPECT_FALSE(worker.link->isClosed());
  EXPECT_FALSE(later.link->isClosed());
}

TEST_F(Looping, WhoIsToldToGoAndDoesNotIsCut) {
  start();
  const Peer stuck = open();
  const Peer gone = open();
  for (const Peer& peer : {stuck, gone}) {
    say(peer, words::enter());
    peer.link->awaitClosed();
  }
  loop->inbox().put({.kind = Incoming::Kind::Closed, .link = gone.id});
  now += 5'000;
  settle();
  EXPECT_FALSE(stuck.link->isCut());
  now += 1'000;
  stuck.link->awaitCut();
  EXPECT_FALSE(gone.link->isCut());
}

class Quiet : public LinkListener {
 public:
  void received(CenterMessage message) override {
    if (message.head.has_refused()) sentence.set_value(message.head.refused().sentence());
  }
  void closed(const std::string&) override { isClosed = true; }
  std::promise<std::string> sentence;
  std::atomic<bool> isClosed = false;
};

TEST_F(Looping, MoreWorkersThanItsLimitAreRefused) {
  start();
  LocalServers servers({&*loop});
  std::vector<Quiet> workers(10'000);
  std::vector<std::unique_ptr<Link>> links;
  std::uint64_t token = 0;
  for (Quiet& worker : workers) {
    links.push_back(servers.connect(0, worker));
    links.back()->send(words::hello({.token = ++token}));
  }
  // One place is the watcher's.
  EXPECT_EQ(workers.back().sentence.get_future().get(), "there are too many workers");
  links.pop_back();
  links.pop_back();
  Quiet next;
  links.push_back(servers.connect(0, next));
  links.back()->send(words::hello({.token = ++token}));
  settle();
  EXPECT_FALSE(next.isClosed);
  for (std::size_t i = 0; i + 1 < workers.size(); ++i) ASSERT_FALSE(workers[i].isClosed);
}

// ---- snapshots

struct LoopingOnADisk : Looping {
  void TearDown() override { loop.reset(); }  // it writes to what is here
  std::unique_ptr<SnapshotWriter> writer(double every) {
    return std::make_unique<SnapshotWriter>(
        file, every, [this](const std::string& what) { warnings.push_back(what); },
        [this](const std::filesystem::path& path, Snapshot snapshot) {
          writeSnapshot(path, std::move(snapshot));
          ++written;
          written.notify_all();
        });
  }
  // Greets and opens a run, of which there is a snapshot then.
  Peer begin(std::uint64_t opening) {
    Peer peer = open();
    say(peer, words::hello({.token = 1}));
    CenterSetup setup = tinySetup();
    setup.opening = opening;
    openRun(peer, setup);
    settle();
    written.wait(0);
    return peer;
  }

  TestDirectory folder;
  std::filesystem::path file = folder / "server-0.snapshot";
  std::atomic<int> written = 0;
  std::vector<std::string> warnings;
};

TEST_F(LoopingOnADisk, ANewOpeningMakesTheSnapshotOfTheLastOneVanish) {
  start(writer(1e9));
  const Peer peer = begin(77);
  EXPECT_EQ(readSnapshot(file)->head.setup().opening(), 77U);
  say(peer, words::reopen(77));
  CenterSetup again = tinySetup();
  again.opening = 78;
  say(peer, words::setup(again));
  settle();
  EXPECT_FALSE(std::filesystem::exists(file));
  written = 0;
  openRun(peer, again);
  settle();
  written.wait(0);
  EXPECT_EQ(readSnapshot(file)->head.setup().opening(), 78U);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(LoopingOnADisk, GoesOnWithItsSnapshotWhichStays) {
  start(writer(1e9));
  begin(77);
  loop.reset();
  start(writer(1e9));
  settle();
  EXPECT_TRUE(std::filesystem::exists(file));
  const Peer peer = open();
  say(peer, words::hello({.token = 5}));
  EXPECT_EQ(peer.link->await(What::kWelcome).welcome().opening(), 77U);
  EXPECT_EQ(written, 1);
}

TEST_F(LoopingOnADisk, ARunThatIsOverHasNoSnapshot) {
  start(writer(0));
  const Peer peer = begin(77);
  say(peer, words::halt());
  for (const Step step : {0, 1}) {  // it was given two works at once
    say(peer, words::push({.step = step}), std::vector<float>(kTinySize));
    say(peer, words::finished({step, {0, 2}}));
  }
  peer.link->await(What::kEnd);
  EXPECT_FALSE(loop->isOver(0));
  say(peer, words::settled());
  EXPECT_TRUE(loop->isOver(60));
  EXPECT_FALSE(std::filesystem::exists(file));
  say(peer, words::bye());
  settle();
  loop.reset();
  EXPECT_FALSE(std::filesystem::exists(file));
}

// It hears words after that, and knows less of the run than the first one.
TEST_F(LoopingOnADisk, ARunThatIsOverHasNoSnapshotOnOtherServers) {
  start(writer(0), {.index = 1, .count = 2});
  const Peer peer = open();
  say(peer, words::hello({.token = 1, .server = 1, .servers = 2}));
  say(peer, words::setup(tinySetup()));
  const ArenaRange slice = sliceOfServer(kTinySize, 1, 2);
  for (const std::string_view arena : {kWeights, std::string_view("momentum")})
    say(peer, words::load(arena, slice.begin), std::vector<float>(slice.size()));
  peer.link->await(What::kOpened);
  settle();
  written.wait(0);
  say(peer, words::settled());
  EXPECT_TRUE(loop->isOver(60));
  EXPECT_FALSE(std::filesystem::exists(file));
  say(peer, words::bye());
  settle();
  loop.reset();
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(SnapshotWriting, ThatFailsInAnyWayIsAWarning) {
  const TestDirectory folder;
  std::vector<std::string> warnings;
  {
    SnapshotWriter writer(
        folder / "snapshot", 0, [&](const std::string& what) { warnings.push_back(what); },
        [](const std::filesystem::path&, const Snapshot&) { throw std::bad_alloc(); });
    writer.write([] { return Snapshot(); });
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find((folder / "snapshot").string()), std::string::npos);
  SnapshotWriter writer(folder / "snapshot", 0, [&](const std::string& what) { warnings.push_back(what); });
  ASSERT_TRUE(writer.isDue());
  writer.write([]() -> Snapshot { throw std::bad_alloc(); });
  EXPECT_EQ(warnings.size(), 2U);
  EXPECT_TRUE(writer.isDue());
}

TEST(SnapshotWriting, ThatIsUnderWayIsForgottenToo) {
  const TestDirectory folder;
  const std::filesystem::path file = folder / "snapshot";
  std::promise<void> goOn;
  SnapshotWriter writer(
      file, 1e9, [](const std::string&) {},
      [&](const std::filesystem::path& path, const Snapshot&) {
        goOn.get_future().wait();
        writeTestFile(path, "something");
      });
  EXPECT_FALSE(writer.isDue());
  writer.write([] { return Snapshot(); });
  std::future<void> forgotten = std::async(std::launch::async, [&] { writer.forget(); });
  goOn.set_value();
  forgotten.get();
  EXPECT_TRUE(writer.isDue());
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace cohort
