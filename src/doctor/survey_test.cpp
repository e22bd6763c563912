#include "doctor/survey.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "comm/thread_transport.h"
#include "doctor/directory_check.h"
#include "doctor/findings.h"
#include "doctor/socket.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

OwnPlace placeOf(int rank) {
  return {.name = "worker " + std::to_string(rank),
          .version = "1.0",
          .instructionSet = "avx2",
          .ports = {},
          .busyPorts = {}};
}

// As so many members, each a thread.
void asMembers(int count, const std::function<void(Meeting&)>& act) {
  ThreadHub hub(count);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator workers(hub.transport(rank), 60);
      const Channel channel(workers, 0);
      act(*channelMeeting(channel));
      channel.barrier("the end");
    });
  }
}

// The same ports of this machine again and again would be somebody else's now and then.
ClusterMap clusterAt(int count) {
  ClusterMap cluster;
  std::string error;
  std::vector<Descriptor> taken;
  for (int i = 0; i < count; ++i) {
    taken.push_back(listenAt(0, error));
    cluster.members.push_back({.role = Role::Worker,
                               .index = i,
                               .host = "127.0.0.1",
                               .localIndex = i,
                               .port = portOf(taken.back())});
  }
  return cluster;
}

Survey examined(const ClusterMap& all, std::size_t me, double seconds) {
  ClusterMap cluster = all;
  cluster.me = me;
  NamedMeeting met = meetAt(cluster, seconds);
  Examination examination{.own = placeOf(static_cast<int>(me)),
                          .plan = {},
                          .directory = {},
                          .addresses = {},
                          .listener = std::move(met.listener),
                          .missing = std::move(met.missing),
                          .waited = seconds};
  for (const Member& member : cluster.members) examination.addresses.push_back({member.host, *member.port});
  return examine(*met.meeting, std::move(examination));
}

TEST(BriefSurvey, KnowsAllMembersAndFindsTheirClocksRight) {
  asMembers(3, [](Meeting& meeting) {
    const Survey survey = briefSurvey(meeting, placeOf(meeting.place()), {});
    ASSERT_EQ(survey.members.size(), 3u);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(survey.members[static_cast<std::size_t>(i)]);
      EXPECT_EQ(survey.members[static_cast<std::size_t>(i)]->name, "worker " + std::to_string(i));
    }
    EXPECT_EQ(survey.clockAhead, std::vector<double>(3, 0.0));
    EXPECT_EQ(membersByHost(survey.members), (std::vector<std::vector<int>>{{0, 1, 2}}));
  });
}

TEST(DirectoryCheck, LeavesNothingBehind) {
  const TestDirectory folder;
  const fs::path run = folder.path() / "runs" / "a";
  asMembers(3, [&](Meeting& meeting) {
    const std::vector<DirectoryFacts> facts = checkDirectory(meeting, run, meeting.place() == 0);
    ASSERT_EQ(facts.size(), 3u);
    for (const DirectoryFacts& one : facts) {
      EXPECT_EQ(one.error, "");
      EXPECT_TRUE(one.unseen.empty());
    }
    EXPECT_GT(facts[0].bytesPerSecond, 0);
  });
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DirectoryCheck, TellsFoldersOfTheSameNameApart) {
  const TestDirectory first;
  const TestDirectory second;
  asMembers(2, [&](Meeting& meeting) {
    const std::vector<DirectoryFacts> facts =
        checkDirectory(meeting, meeting.place() == 0 ? first.path() : second.path(), false);
    EXPECT_EQ(facts[0].unseen, std::vector<int>{1});
    EXPECT_EQ(facts[1].unseen, std::vector<int>{0});
  });
}

TEST(DirectoryCheck, SaysWhyOneCannotWrite) {
  const TestDirectory folder;
  writeTestFile(folder / "file", "no folder");
  asMembers(2, [&](Meeting& meeting) {
    const std::vector<DirectoryFacts> facts =
        checkDirectory(meeting, meeting.place() == 0 ? folder.path() : folder / "file", false);
    EXPECT_EQ(facts[0].error, "");
    EXPECT_EQ(facts[0].unseen, std::vector<int>{}) << "who cannot write is not looked for";
    EXPECT_EQ(facts[1].error, "Not a directory");
  });
}

TEST(NamedMeeting, AllHaveTheWholeSurvey) {
  const ClusterMap cluster = clusterAt(3);
  std::vector<std::jthread> threads;
  for (std::size_t me = 0; me < 3; ++me) {
    threads.emplace_back([&, me] {
      const Survey survey = examined(cluster, me, 20);
      ASSERT_EQ(survey.members.size(), 3u);
      EXPECT_TRUE(std::ranges::all_of(survey.members, [](const auto& member) { return member.has_value(); }));
      EXPECT_TRUE(survey.missing.empty());
    });
  }
}

TEST(NamedMeeting, NamesWhoDoesNotComeAndGoesOn) {
  const ClusterMap cluster = clusterAt(3);
  std::vector<std::jthread> threads;
  for (const std::size_t me : {0, 1}) {
    threads.emplace_back([&, me] {
      const Survey survey = examined(cluster, me, 1);
      ASSERT_EQ(survey.missing.size(), 1u);
      EXPECT_EQ(survey.missing[0].name, "worker 2 at 127.0.0.1:" + std::to_string(*cluster.members[2].port));
      EXPECT_EQ(survey.missing[0].reason, "Connection refused");
      ASSERT_EQ(survey.members.size(), 3u);
      EXPECT_FALSE(survey.members[2]);
    });
  }
}

TEST(NamedMeeting, SaysThatTheFirstDoesNotCome) {
  const ClusterMap cluster = clusterAt(2);
  try {
    examined(cluster, 1, 0.3);
    FAIL() << "nobody was there";
  } catch (const PeerError& error) {
    EXPECT_EQ(std::string(error.what()), "worker 0 at 127.0.0.1:" + std::to_string(*cluster.members[0].port) +
                                             " did not answer within 0.3 s (Connection refused): start "
                                             "cohort doctor there too, or open the port");
  }
}

TEST(NamedMeeting, RefusesMembersOfAnotherCluster) {
  const ClusterMap cluster = clusterAt(3);
  ClusterMap other = cluster;
  other.members.pop_back();
  std::jthread first([&] { EXPECT_EQ(examined(cluster, 0, 2).missing.size(), 2u); });
  EXPECT_THROW(examined(other, 1, 5), UsageError);
}

}  // namespace
}  // namespace cohort
