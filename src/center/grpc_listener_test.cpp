// A server's end of links, against clients that do what no worker does.
#include "center/grpc_listener.h"

#include <algorithm>
#include <vector>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "center/grpc_connector.h"

namespace cohort {
namespace {

wire::Envelope greeting() {
  wire::Envelope word;
  word.mutable_hello();
  return word;
}

// One call, of which everything is waited for.
class RawCall {
 public:
  explicit RawCall(const std::shared_ptr<grpc::Channel>& channel,
                   grpc_compression_algorithm compression = GRPC_COMPRESS_NONE,
                   const std::string& method = kMethod)
      : stub_(channel) {
    context_.set_compression_algorithm(compression);
    stream_ = stub_.PrepareCall(&context_, method, &queue_);
    stream_->StartCall(nullptr);
  }
  ~RawCall() {
    context_.TryCancel();
    if (!isFinished_) finish();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  bool started() { return std::exchange(isStarted_, true) || ended(); }
  bool write(const grpc::ByteBuffer& bytes) {
    started();
    stream_->Write(bytes, nullptr);
    return ended();
  }
  bool read() {
    grpc::ByteBuffer bytes;
    started();
    stream_->Read(&bytes, nullptr);
    return ended();
  }
  grpc::Status finish() {
    grpc::Status status;
    started();
    stream_->Finish(&status, nullptr);
    ended();
    isFinished_ = true;
    return status;
  }

 private:
  bool ended() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return ok;
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool isStarted_ = false;
  bool isFinished_ = false;
};

struct Listening : testing::Test {
  std::shared_ptr<grpc::Channel> channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(listener->address(), grpc::InsecureChannelCredentials(), arguments);
  }
  void listen(const GrpcLimits& limits = {}) { listener.emplace("127.0.0.1:0", std::nullopt, inbox, limits); }
  // What happens next.
  Incoming::Kind next() {
    Incoming incoming = inbox.take();
    if (incoming.opened) link = incoming.opened;
    return incoming.kind;
  }

  Inbox inbox;
  std::optional<GrpcListener> listener;
  std::shared_ptr<Link> link;  // that was opened last
};

TEST_F(Listening, ToCompressedMessagesInflatesNone) {
  listen();
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    RawCall bomber(channel(), algorithm);
    ASSERT_TRUE(bomber.started());
    // As zeros, an envelope without a word and a payload; far more than a message may have.
    const std::string zeros(std::size_t{8} * kLargestMessage, '\0');
    const grpc::Slice slice(zeros);
    bomber.write(grpc::ByteBuffer(&slice, 1));
    EXPECT_FALSE(bomber.read());
    EXPECT_EQ(bomber.finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  RawCall good(channel());
  ASSERT_TRUE(good.started());
  good.write(toBytes(greeting(), {}, nullptr));
  // Of the others there was at most a link that opened and closed.
  for (;;) {
    const Incoming incoming = inbox.take();
    if (incoming.kind != Incoming::Kind::Received) continue;
    EXPECT_TRUE(incoming.message.head.has_hello()) << incoming.message.payload.size();
    break;
  }
}

TEST_F(Listening, ToAMessageThatIsTooLongEndsTheLink) {
  listen();
  RawCall caller(channel());
  ASSERT_TRUE(caller.started());
  EXPECT_EQ(next(), Incoming::Kind::Opened);
  const grpc::Slice slice(std::string(kLargestMessage + 1, '\0'));
  caller.write(grpc::ByteBuffer(&slice, 1));
  EXPECT_FALSE(caller.read());
  EXPECT_EQ(next(), Incoming::Kind::Closed);
}

TEST_F(Listening, ToBytesThatAreNoMessageEndsTheLink) {
  listen();
  RawCall caller(channel());
  ASSERT_TRUE(caller.started());
  const grpc::Slice slice(std::string("\xff\xff\xff\xff", 4));
  caller.write(grpc::ByteBuffer(&slice, 1));
  EXPECT_FALSE(caller.read());
  EXPECT_EQ(next(), Incoming::Kind::Opened);
  EXPECT_EQ(next(), Incoming::Kind::Closed);
}

TEST_F(Listening, ToAnotherMethodRefusesIt) {
  listen();
  RawCall caller(channel(), GRPC_COMPRESS_NONE, "/cohort.Center/Other");
  EXPECT_FALSE(caller.read());
  EXPECT_EQ(caller.finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(Listening, ToMoreStreamsThanItsLimitRefusesThem) {
  listen({.streams = 2});
  std::vector<std::unique_ptr<RawCall>> callers;
  for (int i = 0; i < 2; ++i) {
    callers.push_back(std::make_unique<RawCall>(channel()));
    EXPECT_EQ(next(), Incoming::Kind::Opened);
  }
  RawCall third(channel());
  third.started();
  EXPECT_FALSE(third.read());
  EXPECT_EQ(third.finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Where one leaves, there is room again.
  callers.pop_back();
  EXPECT_EQ(next(), Incoming::Kind::Closed);
  RawCall fourth(channel());
  EXPECT_EQ(next(), Incoming::Kind::Opened);
}

TEST_F(Listening, TakesOneStreamOfAConnectionAtATime) {
  listen();
  const std::shared_ptr<grpc::Channel> shared = channel();
  auto first = std::make_unique<RawCall>(shared);
  EXPECT_EQ(next(), Incoming::Kind::Opened);
  RawCall second(shared);
  RawCall other(channel());
  ASSERT_TRUE(other.started());
  EXPECT_EQ(next(), Incoming::Kind::Opened);
  ASSERT_TRUE(other.write(toBytes(greeting(), {}, nullptr)));
  EXPECT_EQ(next(), Incoming::Kind::Received);
  first.reset();
  std::vector<Incoming::Kind> kinds{next(), next()};  // gRPC may be faster than the server's own end of it
  std::ranges::sort(kinds);
  EXPECT_EQ(kinds, (std::vector{Incoming::Kind::Opened, Incoming::Kind::Closed}));
}

TEST_F(Listening, CutsWhoReadsNothingWhereTooMuchWaits) {
  listen({.unsent = {.messages = 50}});
  const RawCall deaf(channel());
  EXPECT_EQ(next(), Incoming::Kind::Opened);
  const auto floats = std::make_shared<std::vector<float>>(kFrameFloats);
  // Some go out into buffers of the system's.
  for (int i = 0; i < 500; ++i) link->send(greeting(), *floats, floats);
  EXPECT_EQ(next(), Incoming::Kind::Closed);
}

TEST_F(Listening, CutsWhoReadsNothingWhenAsked) {
  listen();
  const RawCall deaf(channel());
  EXPECT_EQ(next(), Incoming::Kind::Opened);
  const auto floats = std::make_shared<std::vector<float>>(kFrameFloats);
  for (int i = 0; i < 50; ++i) link->send(greeting(), *floats, floats);
  link->close();  // which waits for what cannot go out
  link->cut();
  EXPECT_EQ(next(), Incoming::Kind::Closed);
  link->cut();
  link->close();
  link->send(greeting());
}

class Deaf : public LinkListener {
 public:
  void received(CenterMessage) override {}
  void closed(const std::string&) override {}
};

// gRPC aborts the process where a stream begins anything on a queue that was shut down.
TEST_F(Listening, CanEndWithManyLinksInAnyState) {
  const auto floats = std::make_shared<std::vector<float>>(10'000);
  for (int round = 0; round < 60; ++round) {
    listen();
    GrpcServers servers({listener->address()}, std::nullopt);
    std::vector<Deaf> deaf(12);
    std::vector<std::unique_ptr<Link>> links;
    for (Deaf& one : deaf) {
      links.push_back(servers.connect(0, one));
      links.back()->send(greeting(), *floats, floats);
    }
    // The more rounds, the more of them are there.
    std::vector<std::shared_ptr<Link>> ends;
    for (int opened = 0; opened < round / 5;) {
      Incoming incoming = inbox.take();
      if (!incoming.opened) continue;
      ++opened;
      incoming.opened->send(greeting(), *floats, floats);
      if (round % 3 == 0) incoming.opened->close();
      if (round % 4 == 0) ends.push_back(std::move(incoming.opened));
    }
    if (round % 5 == 0) links.clear();
    listener.reset();
    // What a server still has of it does no harm.
    for (const std::shared_ptr<Link>& end : ends) {
      end->send(greeting());
      end->close();
      end->cut();
    }
    links.clear();
    inbox.put({.kind = Incoming::Kind::Stop});
    while (inbox.take().kind != Incoming::Kind::Stop) {
    }
  }
}

// Messages that nobody deals with keep no listener from its end.
TEST_F(Listening, CanEndThoughNothingIsTakenFromTheInbox) {
  listen();
  GrpcServers servers({listener->address()}, std::nullopt);
  Deaf deaf;
  const std::unique_ptr<Link> ours = servers.connect(0, deaf);
  const auto floats = std::make_shared<std::vector<float>>(kFrameFloats);
  for (int i = 0; i < 30; ++i) ours->send(greeting(), *floats, floats);
  EXPECT_EQ(next(), Incoming::Kind::Opened);
  EXPECT_EQ(next(), Incoming::Kind::Received);
  listener.reset();
}

}  // namespace
}  // namespace cohort
