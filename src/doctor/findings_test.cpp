#include "doctor/findings.h"

#include <gtest/gtest.h>

#include "doctor/survey_text.h"

namespace cohort {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;

MemberFacts memberOn(const std::string& host, int index) {
  return {.name = "worker " + std::to_string(index),
          .host = host,
          .machine = "machine of " + host,
          .addresses = {{"eth0", "10.0.0." + host.substr(1)}},
          .linkPort = 4000,
          .program = "1.0, aaaa",
          .instructionSet = "avx2",
          .onlineCores = 4,
          .cores = {0, 1, 2, 3},
          .memoryBytes = 16 * kGigabyte,
          .freeBytes = 10 * kGigabyte,
          .busyPorts = {}};
}

LinkFacts linkBetween(int from, int to) {
  return {.from = from,
          .to = to,
          .address = "10.0.0." + std::to_string(to + 1),
          .interface = "eth0",
          .roundTrip = 1e-4,
          .there = from < to ? 1e9 : 0,
          .back = from < to ? 0.9e9 : 0};
}

// Three hosts with one worker each, and nothing wrong.
Survey goodSurvey() {
  Survey survey{.plan = {.isGiven = true, .workerBytes = kGigabyte},
                .members = {memberOn("h1", 0), memberOn("h2", 1), memberOn("h3", 2)},
                .clockAhead = {0, 0, 0.4},
                .directory = "/shared/run",
                .directories = {3, {.bytesPerSecond = 1e8}}};
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from != to) survey.links.push_back(linkBetween(from, to));
    }
  }
  return survey;
}

// Expects one finding of this weight, and gives its sentence.
std::string onlyFinding(const Survey& survey, Finding::Weight weight) {
  const std::vector<Finding> findings = findingsOf(survey);
  if (findings.size() != 1) return "not one finding: " + toText(findings);
  EXPECT_EQ(findings.front().weight, weight);
  return findings.front().sentence;
}

std::string onlyWrong(const Survey& survey) {
  return onlyFinding(survey, Finding::Weight::Wrong);
}

std::string onlyPoor(const Survey& survey) {
  return onlyFinding(survey, Finding::Weight::Poor);
}

TEST(Findings, AreNoneOfGoodGround) {
  EXPECT_EQ(findingsOf(goodSurvey()), std::vector<Finding>{});
}

TEST(Findings, NameWhoDidNotCome) {
  Survey survey = goodSurvey();
  survey.members[2].reset();
  survey.links.clear();
  survey.missing = {{.member = 2, .name = "worker 2 at c:2222", .reason = "Connection refused"}};
  survey.waited = 10;
  EXPECT_EQ(onlyWrong(survey),
            "worker 2 at c:2222 did not answer within 10 s (Connection refused): start cohort doctor there "
            "too, or open "
            "the port");
}

TEST(Findings, NameTwoMachinesOfOneName) {
  Survey survey = goodSurvey();
  survey.members[2]->host = "h1";
  EXPECT_EQ(onlyWrong(survey),
            "worker 0 and worker 2 are on two machines that are both called h1: give each a name of its own");
}

TEST(Findings, NameAnotherProgram) {
  Survey survey = goodSurvey();
  survey.members[1]->program = "1.0, bbbb";
  EXPECT_EQ(onlyWrong(survey),
            "h2 has another cohort (1.0, bbbb) than h1 (1.0, aaaa): give all hosts the same program");
  survey.members[2]->program = "1.0, bbbb";
  EXPECT_EQ(onlyWrong(survey),
            "h2, h3 have another cohort (1.0, bbbb) than h1 (1.0, aaaa): give all hosts the same program");
}

TEST(Findings, NameAnotherProcessor) {
  Survey survey = goodSurvey();
  survey.members[0]->instructionSet = "avx512";
  survey.members[2]->instructionSet = "avx512";
  EXPECT_EQ(
      onlyWrong(survey),
      "the processor of h2 has avx2 and that of h1 avx512: give --isa avx2, so that all compute the same");
  survey.plan.instructionSet = "avx2";
  EXPECT_EQ(findingsOf(survey), std::vector<Finding>{}) << "all have that one";
  survey.plan.instructionSet = "avx512";
  EXPECT_EQ(onlyWrong(survey),
            "the processor of h2 has avx2, and the run uses avx512: leave that host out, or start a run with "
            "--isa avx2");
}

TEST(Findings, NameAWrongClock) {
  Survey survey = goodSurvey();
  survey.clockAhead = {0, 3600.2, 0};
  EXPECT_EQ(onlyPoor(survey),
            "the clock of h2 is 3600 s ahead of that of h1: set it (chrony, ntpd); certificates and records "
            "need the time");
  survey.clockAhead = {0, 0, -7};
  EXPECT_EQ(onlyPoor(survey).substr(0, 39), "the clock of h3 is 7 s behind that of h");
}

TEST(Findings, NameAFolderThatIsNotForAll) {
  Survey survey = goodSurvey();
  survey.directories[1] = {.error = "Read-only file system"};
  EXPECT_EQ(onlyWrong(survey),
            "h2 cannot write in /shared/run (Read-only file system): mount it there so that it can, or give "
            "another "
            "--job-dir");
  survey.directories[1] = {.unseen = {0, 2}};
  EXPECT_EQ(onlyWrong(survey),
            "h2 does not see in /shared/run what h1 writes there: give a --job-dir that all hosts share");
  survey.directories[1] = {.bytesPerSecond = 1e6};
  EXPECT_EQ(onlyPoor(survey), "h2 writes 1 MB/s in /shared/run: a faster folder makes checkpoints shorter");
}

TEST(Findings, NameAPortThatIsTaken) {
  Survey survey = goodSurvey();
  survey.members[0]->name = "server 0";
  survey.members[0]->busyPorts = {"7000 (Address already in use)"};
  EXPECT_EQ(onlyWrong(survey),
            "server 0 on h1 cannot listen at port 7000 (Address already in use): end what has it, or choose "
            "another");
}

TEST(Findings, NameAWayThatIsClosed) {
  Survey survey = goodSurvey();
  survey.links = {linkBetween(0, 1), linkBetween(1, 0)};
  survey.links[1].error = "10.0.0.1: Connection timed out";
  EXPECT_EQ(
      onlyWrong(survey),
      "h2 cannot reach h1 (10.0.0.1: Connection timed out), though h1 reaches h2: open the way between them "
      "(firewall, routes, interface)");
}

TEST(Findings, NameAHostWhoseNameOthersDoNotKnow) {
  Survey survey = goodSurvey();
  for (LinkFacts& link : survey.links) {
    if (link.to == 2) link.nameError = "Name or service not known";
  }
  EXPECT_EQ(
      onlyPoor(survey),
      "h1, h2 do not know the name h3: add it to /etc/hosts or the name server, or name hosts by address");
}

TEST(Findings, NameASlowLink) {
  Survey survey = goodSurvey();
  survey.links[1].back = 2.5e6;  // from the first host to the third
  survey.plan.gradientBytes = 250'000'000;
  EXPECT_EQ(onlyPoor(survey).substr(0, 80),
            "between h1 and h3 there are only 2.5 MB/s, so that a step takes at least 1e+02 s");
  survey.links[1].back = 0.2e9;
  EXPECT_EQ(onlyPoor(survey).substr(0, 41), "between h1 and h3 there are only 200 MB/s")
      << "others have more";
  for (LinkFacts& link : survey.links) link.back = link.there = link.there > 0 ? 0.2e9 : 0;
  EXPECT_EQ(findingsOf(survey), std::vector<Finding>{}) << "that is how this network is";
}

TEST(Findings, NameCoresThatTwoShare) {
  Survey survey = goodSurvey();
  survey.members[1] = memberOn("h1", 1);
  survey.links.clear();
  EXPECT_EQ(findingsOf(survey), std::vector<Finding>{}) << "they divide all four";
  survey.members[0]->cores = {0, 1};
  survey.members[1]->cores = {2, 3};
  EXPECT_EQ(findingsOf(survey), std::vector<Finding>{});
  survey.members[1]->cores = {1, 2, 3};
  EXPECT_EQ(onlyPoor(survey).substr(0, 41), "worker 0 and worker 1 on h1 share core 1:");
  survey.members[0]->cores = {0};
  survey.members[1]->cores = {0};
  EXPECT_EQ(onlyPoor(survey), "2 workers on h1 share 1 core: start fewer there");
}

TEST(Findings, NameMoreLanesThanCores) {
  Survey survey = goodSurvey();
  survey.plan.lanes = 6;
  const std::vector<Finding> findings = findingsOf(survey);
  ASSERT_EQ(findings.size(), 3u) << "one for each host";
  EXPECT_EQ(findings[0].sentence,
            "1 worker on h1 with 6 lanes each share 4 cores: give --threads 4, or start fewer there");
  survey.plan.lanes = 0;
  survey.members = {memberOn("h1", 0)};
  survey.links.clear();
  survey.members[0]->workers = 5;
  EXPECT_EQ(onlyPoor(survey), "5 workers on h1 share 4 cores: start fewer there");
  survey.members[0]->workers = 0;  // a server
  EXPECT_EQ(findingsOf(survey), std::vector<Finding>{});
}

TEST(Findings, NameTooLittleMemory) {
  Survey survey = goodSurvey();
  survey.plan.workerBytes = 6 * kGigabyte;
  EXPECT_EQ(findingsOf(survey), std::vector<Finding>{});
  survey.members[1] = memberOn("h1", 1);
  survey.links.clear();
  EXPECT_EQ(onlyPoor(survey),
            "h1 has 10 GB of memory left, and 2 workers there need about 12 GB: start fewer there, or give a "
            "smaller "
            "--batch-size or more --grains");
}

TEST(Findings, WrongOnesComeFirst) {
  Survey survey = goodSurvey();
  survey.clockAhead = {0, 0, 10};
  survey.directories[2].error = "Permission denied";
  const std::vector<Finding> findings = findingsOf(survey);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].weight, Finding::Weight::Wrong);
  EXPECT_EQ(toText(findings).substr(0, 28), "wrong: h3 cannot write in /s");
}

TEST(SurveyText, ShowsHostsAndEveryLinkOfFew) {
  EXPECT_EQ(toText(goodSurvey()),
            "3 hosts, 3 processes; cohort 1.0, aaaa; avx2\n"
            "  host  processes  address          cores         memory left     clock   writes\n"
            "  h1    1          10.0.0.1 (eth0)  4 of 4 (0-3)  10 GB of 16 GB  same    100 MB/s\n"
            "  h2    1          10.0.0.2 (eth0)  4 of 4 (0-3)  10 GB of 16 GB  same    100 MB/s\n"
            "  h3    1          10.0.0.3 (eth0)  4 of 4 (0-3)  10 GB of 16 GB  +0.4 s  100 MB/s\n"
            "between hosts at least 900 MB/s (h1 and h2), round trips of at most 0.1 ms (h1 and h2)\n"
            "  from  to h1                   to h2                   to h3\n"
            "  h1                            eth0, 1 GB/s, 0.1 ms    eth0, 1 GB/s, 0.1 ms\n"
            "  h2    eth0, 900 MB/s, 0.1 ms                          eth0, 1 GB/s, 0.1 ms\n"
            "  h3    eth0, 900 MB/s, 0.1 ms  eth0, 900 MB/s, 0.1 ms\n"
            "/shared/run is the same folder for all; a worker of the planned run needs about 1 GB");
}

TEST(Facts, ArriveAsTheyWereSent) {
  MemberFacts facts = memberOn("h1", 0);
  facts.busyPorts = {"7000 (Address already in use)"};
  EXPECT_EQ(memberFactsOf(toText(facts)), facts);
  const DirectoryFacts directory{.error = "no", .unseen = {1, 2}, .bytesPerSecond = 3};
  EXPECT_EQ(directoryFactsOf(toText(directory)), directory);
  const std::vector<LinkFacts> links = goodSurvey().links;
  EXPECT_EQ(linkFactsOf(toText(links)), links);
}

}  // namespace
}  // namespace cohort
