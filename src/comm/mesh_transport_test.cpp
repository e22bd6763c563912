#include "comm/mesh_transport.h"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "comm/channel.h"
#include "comm/communicator.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Descriptor boundSocket(int& port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket.get(), generic, size), 0);
  EXPECT_EQ(::getsockname(socket.get(), generic, &size), 0);
  port = ntohs(address.sin_port);
  return socket;
}

// Loopback addresses that nobody listens at.
std::vector<std::string> freeAddresses(int count) {
  std::vector<Descriptor> held;
  std::vector<std::string> addresses;
  for (int i = 0; i < count; ++i) {
    int port = 0;
    held.push_back(boundSocket(port));
    addresses.push_back("127.0.0.1:" + std::to_string(port));
  }
  return addresses;
}

MeshPlace placeOf(const std::vector<std::string>& addresses, int rank) {
  return {.rank = rank,
          .addresses = addresses,
          .listen = addresses[static_cast<std::size_t>(rank)],
          .patience = 20};
}

// Runs work(communicator) as every worker, each on a thread.
void asWorkers(int size, const std::function<void(Communicator&)>& work) {
  const std::vector<std::string> addresses = freeAddresses(size);
  std::vector<std::jthread> threads;
  threads.reserve(addresses.size());
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator worker(connectMesh(placeOf(addresses, rank)), 20);
      work(worker);
    });
  }
}

TEST(Mesh, GathersAndBroadcastsTexts) {
  asWorkers(4, [](Communicator& worker) {
    const Channel channel(worker, 3);
    const std::string own(static_cast<std::size_t>(worker.rank()) * 100'000,
                          static_cast<char>('a' + worker.rank()));
    const std::vector<std::string> all = channel.gather(own, "texts");
    if (worker.isFirst()) {
      EXPECT_THAT(all, ElementsAre("", std::string(100'000, 'b'), std::string(200'000, 'c'),
                                   std::string(300'000, 'd')));
    }
    EXPECT_EQ(channel.broadcast(worker.isFirst() ? "hello" : "", "a greeting"), "hello");
    EXPECT_EQ(channel.broadcast("", "nothing"), "");
  });
}

// Large ones in both directions at once, received in another order than they were sent.
TEST(Mesh, MessagesOfOneTagKeepTheirOrderAndOthersDoNotWait) {
  constexpr std::size_t kFloats = 1 << 20;
  constexpr std::size_t kMiddle = kFloats / 2;
  constexpr int kTags = 3;
  asWorkers(3, [](Communicator& worker) {
    for (int round = 0; round < 4; ++round) {
      std::vector<std::vector<float>> out(kTags, std::vector<float>(kFloats));
      std::vector<std::vector<float>> in(static_cast<std::size_t>(kTags * worker.size()),
                                         std::vector<float>(kFloats));
      std::vector<Communicator::Transfer*> transfers;
      for (int tag = 0; tag < kTags; ++tag) {
        std::iota(out[static_cast<std::size_t>(tag)].begin(), out[static_cast<std::size_t>(tag)].end(),
                  static_cast<float>(1000 * round + 10 * worker.rank() + tag));
      }
      std::atomic<int> done = 0;  // the communication thread counts
      for (int other = 0; other < worker.size(); ++other) {
        if (other == worker.rank()) continue;
        for (int tag = 0; tag < kTags; ++tag) {
          const int mirrored = kTags - 1 - tag;
          transfers.push_back(&worker.addSend(other, tag + kTags * round,
                                              std::as_bytes(std::span(out[static_cast<std::size_t>(tag)])),
                                              [&done] { ++done; }));
          transfers.push_back(&worker.addReceive(
              other, mirrored + kTags * round,
              std::as_writable_bytes(std::span(in[static_cast<std::size_t>(kTags * other + mirrored)])),
              [&done] { ++done; }));
        }
      }
      for (Communicator::Transfer* transfer : transfers) worker.start(*transfer);
      worker.waitUntil([&] { return done == static_cast<int>(transfers.size()); }, [] { return "all"; });
      for (int other = 0; other < worker.size(); ++other) {
        if (other == worker.rank()) continue;
        for (int tag = 0; tag < kTags; ++tag) {
          EXPECT_EQ(in[static_cast<std::size_t>(kTags * other + tag)][kMiddle],
                    static_cast<float>(1000 * round + 10 * other + tag) + static_cast<float>(kMiddle));
        }
      }
      Channel(worker, 0).barrier("the round");
    }
  });
}

TEST(Mesh, AWorkerThatGoesIsMissedByThoseWhoWaitForIt) {
  asWorkers(3, [](Communicator& worker) {
    const Channel channel(worker, 0);
    channel.barrier("all");  // a meeting that is not over would wait for it
    if (worker.rank() == 1) return;
    EXPECT_THAT([&] { channel.barrier("the end"); }, ThrowsMessage<PeerError>(HasSubstr(" is gone: ")));
  });
}

TEST(Mesh, WhereOneDiesItIsNamedByThoseWhoMissAnotherForWantOfIt) {
  asWorkers(3, [](Communicator& worker) {
    const Channel channel(worker, 0);
    channel.barrier("all");
    if (worker.rank() == 2) return;
    // The second one waits for the first, which ends because the third has.
    const int awaited = worker.rank() == 0 ? 2 : 0;
    std::array<std::byte, 1> memory{};
    EXPECT_THAT(
        [&] {
          worker.transferNow({Message::Direction::Receive, awaited, 7, memory}, "a word");
        },
        ThrowsMessage<PeerError>(HasSubstr("worker 2 is gone: ")));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // nobody ends at once
  });
}

TEST(Mesh, AWorkerThatDoesNotComeIsNamed) {
  const std::vector<std::string> addresses = freeAddresses(2);
  MeshPlace place = placeOf(addresses, 1);
  place.patience = 0.3;
  EXPECT_THAT([&] { connectMesh(place); }, ThrowsMessage<PeerError>(HasSubstr("worker 0 at " + addresses[0] +
                                                                              " did not come within 0.3 s")));
  place = placeOf(addresses, 0);
  place.patience = 0.3;
  place.first = 4;  // as its run counts
  EXPECT_THAT([&] { connectMesh(place); },
              ThrowsMessage<PeerError>(HasSubstr("worker 5 at " + addresses[1] + " did not answer")));
}

TEST(Mesh, AMeetingIsGivenUp) {
  MeshPlace place = placeOf(freeAddresses(2), 1);
  place.isGivenUp = [] { return true; };
  EXPECT_THAT([&] { connectMesh(place); }, ThrowsMessage<PeerError>(HasSubstr("given up")));
}

TEST(Mesh, APortThatAnotherHas) {
  int port = 0;
  const Descriptor taken = boundSocket(port);
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  const std::string address = "127.0.0.1:" + std::to_string(port);
  EXPECT_THAT(
      [&] {
        connectMesh(placeOf({"127.0.0.1:1", address}, 1));
      },
      ThrowsMessage<IoError>(HasSubstr("cannot listen at " + address)));
}

TEST(Mesh, TheFirstOneNeedsNoAddressOfItsOwn) {
  int port = 0;
  const Descriptor taken = boundSocket(port);
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  std::vector<std::string> addresses = freeAddresses(2);
  addresses[0] = "127.0.0.1:" + std::to_string(port);
  const std::jthread second([&] {
    Communicator worker(connectMesh(placeOf(addresses, 1)), 20);
    Channel(worker, 0).barrier("all");
  });
  Communicator worker(connectMesh(placeOf(addresses, 0)), 20);
  Channel(worker, 0).barrier("all");
}

TEST(Mesh, MeetsBySocketsOfOneHostAlsoWhereOldOnesAreLeft) {
  const TestDirectory folder;
  std::vector<std::string> addresses;
  for (const char* name : {"a", "b", "c"}) addresses.push_back("unix:" + (folder.path() / name).string());
  for (int round = 0; round < 2; ++round) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        Communicator worker(connectMesh(placeOf(addresses, rank)), 20);
        Channel(worker, 0).barrier("all");
      });
    }
  }
  const std::string deep = "unix:" + (folder.path() / std::string(120, 'x')).string();
  EXPECT_THAT(
      [&] {
        connectMesh(placeOf({addresses[0], deep}, 1));
      },
      ThrowsMessage<IoError>(HasSubstr("too long")));
}

// One that dies in the middle of a meeting and comes again: nobody who is still there goes on with what is left of it.
TEST(Mesh, AMeetingWaitsForOneThatComesAgain) {
  const std::vector<std::string> addresses = freeAddresses(3);
  const auto meet = [&](int rank) {
    Communicator worker(connectMesh(placeOf(addresses, rank)), 20);
    Channel(worker, 0).barrier("all");
  };
  const std::jthread first([&] { EXPECT_NO_THROW(meet(0)); });
  MeshPlace early = placeOf(addresses, 1);
  early.patience = 1;  // it meets the first one, and gives the third one up
  EXPECT_THROW(connectMesh(early), PeerError);
  const std::jthread third([&] { EXPECT_NO_THROW(meet(2)); });
  EXPECT_NO_THROW(meet(1));
}

// A stranger, and one of another cluster, are not let in; those who belong come all the same.
TEST(Mesh, StrangersCostNothing) {
  const std::vector<std::string> addresses = freeAddresses(2);
  const std::jthread second([&] {
    Communicator worker(connectMesh(placeOf(addresses, 1)), 20);
    Channel(worker, 0).barrier("all");
  });
  MeshPlace other = placeOf(addresses, 0);
  other.addresses.emplace_back("127.0.0.1:1");  // of three
  other.patience = 0.5;
  EXPECT_THROW(connectMesh(other), PeerError);
  {
    const Descriptor stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(addresses[1].substr(10))));
    ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::send(stranger.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  }
  Communicator worker(connectMesh(placeOf(addresses, 0)), 20);
  Channel(worker, 0).barrier("all");
}

}  // namespace
}  // namespace cohort
