// A stream against a gRPC that is played here, so that everything can end in any order.
#include "center/grpc_stream.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

class PlayedStream : public Stream {
 public:
  struct Record {
    std::vector<CenterMessage> heard;
    int reads = 0;
    int writes = 0;
    int finishes = 0;
    bool isCancelled = false;
    bool isOver = false;
    bool isFreed = false;
  };
  static std::shared_ptr<PlayedStream> make(Record& record, const UnsentLimits& limits = {}) {
    auto stream = std::make_shared<PlayedStream>(record, limits);
    stream->keepAlive(stream);
    stream->begin();
    return stream;
  }
  PlayedStream(Record& record, const UnsentLimits& limits) : Stream(limits), record_(record) {}
  ~PlayedStream() override { record_.isFreed = true; }
  PlayedStream(const PlayedStream&) = delete;
  PlayedStream& operator=(const PlayedStream&) = delete;

  // What gRPC would say.
  void read(const wire::Envelope& head, std::span<const float> floats = {}) {
    *reading_ = toBytes(head, floats, nullptr);
    readTag_->ended(true);
  }
  void readFails() { readTag_->ended(false); }
  void wrote(bool ok = true) { writeTag_->ended(ok); }
  void answerFinish() { onFinished(); }

 private:
  void hear(CenterMessage message) override { record_.heard.push_back(std::move(message)); }
  void startRead(grpc::ByteBuffer& bytes, Tag& tag) override {
    ++record_.reads;
    reading_ = &bytes;
    readTag_ = &tag;
  }
  void startWrite(const grpc::ByteBuffer&, Tag& tag) override {
    ++record_.writes;
    writeTag_ = &tag;
  }
  void cancel() override { record_.isCancelled = true; }
  bool readsToTheEnd() const override { return false; }
  void finishIfIdle() override {
    if (isSending() || std::exchange(isFinishing_, true)) return;
    ++record_.finishes;
  }
  void over() override { record_.isOver = true; }

  Record& record_;
  grpc::ByteBuffer* reading_ = nullptr;
  Tag* readTag_ = nullptr;
  Tag* writeTag_ = nullptr;
};

wire::Envelope smallWord() {
  wire::Envelope word;
  word.mutable_ask_status();
  return word;
}

TEST(GrpcStream, LivesUntilItsReadHasEndedToo) {
  PlayedStream::Record record;
  std::shared_ptr<PlayedStream> stream = PlayedStream::make(record);
  PlayedStream* raw = stream.get();
  stream->end();
  stream.reset();
  ASSERT_EQ(record.finishes, 1);
  raw->answerFinish();
  ASSERT_FALSE(record.isOver);
  ASSERT_FALSE(record.isFreed);
  raw->readFails();
  EXPECT_TRUE(record.isOver);
  EXPECT_TRUE(record.isFreed);
}

TEST(GrpcStream, LivesUntilItsFinishIsAnswered) {
  PlayedStream::Record record;
  PlayedStream* raw = PlayedStream::make(record).get();
  raw->readFails();
  ASSERT_EQ(record.finishes, 1);
  ASSERT_FALSE(record.isFreed);
  raw->answerFinish();
  EXPECT_TRUE(record.isOver);
  EXPECT_TRUE(record.isFreed);
}

TEST(GrpcStream, HearsWhatWasReadBeforeItsFinishWasAnsweredAndReadsNoMore) {
  PlayedStream::Record record;
  PlayedStream* raw = PlayedStream::make(record).get();
  raw->end();
  raw->answerFinish();
  raw->read(smallWord());
  EXPECT_EQ(record.heard.size(), 1U);
  EXPECT_EQ(record.reads, 1);
  EXPECT_TRUE(record.isOver);
  record.heard.clear();  // with it goes the last that holds the stream
  EXPECT_EQ(record.reads, 1);
  EXPECT_TRUE(record.isFreed);
}

TEST(GrpcStream, ReadsNoMoreWhileManySmallMessagesWait) {
  PlayedStream::Record record;
  const std::shared_ptr<PlayedStream> stream = PlayedStream::make(record);
  while (record.reads == std::ssize(record.heard) + 1) {
    ASSERT_LT(record.heard.size(), 40'000U);
    stream->read(smallWord());
  }
  EXPECT_GT(record.heard.size(), 1000U);
  record.heard.pop_back();
  EXPECT_EQ(record.reads, std::ssize(record.heard) + 2);
  record.heard.clear();
  stream->readFails();
  stream->answerFinish();
}

// An empty parameter of a setup has two bytes on the wire, and a hundred in memory.
TEST(GrpcStream, CountsWhatAMessageIsParsedTo) {
  PlayedStream::Record record;
  const std::shared_ptr<PlayedStream> stream = PlayedStream::make(record);
  wire::Envelope word;
  for (int i = 0; i < 1'000'000; ++i) word.mutable_setup()->add_parameters();
  stream->read(word);
  EXPECT_EQ(record.heard.size(), 1U);
  EXPECT_EQ(record.reads, 1);
  record.heard.clear();
  EXPECT_EQ(record.reads, 2);
  stream->readFails();
  stream->answerFinish();
}

TEST(GrpcStream, IsCutWhereTooManyMessagesWaitToBeSent) {
  PlayedStream::Record record;
  const std::shared_ptr<PlayedStream> stream = PlayedStream::make(record, {.messages = 10});
  const auto floats = std::make_shared<std::vector<float>>(5);
  for (int i = 0; i < 10; ++i) stream->send(smallWord(), *floats, floats);
  ASSERT_FALSE(record.isCancelled);
  ASSERT_EQ(floats.use_count(), 11);
  stream->send(smallWord(), *floats, floats);
  EXPECT_TRUE(record.isCancelled);
  EXPECT_EQ(floats.use_count(), 2);  // of the one that gRPC has
  EXPECT_EQ(record.finishes, 0);
  stream->wrote(false);
  EXPECT_EQ(floats.use_count(), 1);
  EXPECT_EQ(record.finishes, 1);
  stream->readFails();
  stream->answerFinish();
  EXPECT_TRUE(record.isOver);
}

TEST(GrpcStream, IsCutWhereTooManyBytesOfEnvelopesWaitToBeSent) {
  PlayedStream::Record record;
  const std::shared_ptr<PlayedStream> stream = PlayedStream::make(record, {.headBytes = 1000});
  const auto floats = std::make_shared<std::vector<float>>(5000);
  stream->send(smallWord(), *floats, floats);
  ASSERT_FALSE(record.isCancelled);  // floats are others' memory
  stream->wrote();
  wire::Envelope word;
  word.mutable_welcome()->set_config(std::string(600, 'x'));
  stream->send(word, {}, {});
  stream->wrote();
  stream->send(word, {}, {});
  ASSERT_FALSE(record.isCancelled);
  stream->send(word, {}, {});
  EXPECT_TRUE(record.isCancelled);
  stream->wrote(false);
  stream->readFails();
  stream->answerFinish();
}

TEST(GrpcStream, ThatEndsSendsWhatWaits) {
  PlayedStream::Record record;
  const std::shared_ptr<PlayedStream> stream = PlayedStream::make(record);
  stream->send(smallWord(), {}, {});
  stream->send(smallWord(), {}, {});
  stream->end();
  stream->send(smallWord(), {}, {});  // too late
  stream->wrote();
  EXPECT_EQ(record.writes, 2);
  EXPECT_EQ(record.finishes, 0);
  stream->wrote();
  EXPECT_EQ(record.writes, 2);
  EXPECT_EQ(record.finishes, 1);
  stream->readFails();
  stream->answerFinish();
}

TEST(GrpcStream, ThatIsCutWaitsForNothingButGrpc) {
  PlayedStream::Record record;
  const std::shared_ptr<PlayedStream> stream = PlayedStream::make(record);
  stream->send(smallWord(), {}, {});
  stream->send(smallWord(), {}, {});
  stream->end();
  stream->cut();
  EXPECT_TRUE(record.isCancelled);
  stream->wrote(false);
  EXPECT_EQ(record.writes, 1);
  EXPECT_EQ(record.finishes, 1);
  stream->readFails();
  stream->answerFinish();
  EXPECT_TRUE(record.isOver);
  record.isCancelled = false;
  stream->cut();
  EXPECT_FALSE(record.isCancelled);
}

}  // namespace
}  // namespace cohort
