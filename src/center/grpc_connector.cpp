#include "center/grpc_connector.h"

#include <condition_variable>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "center/grpc_stream.h"

namespace cohort {
namespace {

constexpr std::chrono::seconds kFarewell{5};

class ClientStream : public Stream {
 public:
  ClientStream(std::shared_ptr<grpc::Channel> channel, Poller& poller, LinkListener& listener)
      : poller_(poller), stub_(std::move(channel)), listener_(&listener) {}

  void start(const std::shared_ptr<ClientStream>& self) {
    keepAlive(self);
    stream_ = stub_.PrepareCall(&context_, kMethod, &poller_.queue());
    poller_.handOver();
    stream_->StartCall(&started_);
  }

  // From now on nobody is told anything. Returns when gRPC has done with it; what was sent has then gone out, or cannot.
  void leave() {
    {
      const std::lock_guard lock(listening_);
      listener_ = nullptr;
    }
    end();
    std::unique_lock lock(mutex_);
    if (!done_.wait_for(lock, kFarewell, [this] { return isDone_; })) context_.TryCancel();
    done_.wait(lock, [this] { return isDone_; });
  }

 private:
  void hear(CenterMessage message) override {
    const std::lock_guard lock(listening_);
    if (listener_ != nullptr) listener_->received(std::move(message));
  }
  void startRead(grpc::ByteBuffer& bytes, Tag& tag) override { stream_->Read(&bytes, &tag); }
  void startWrite(const grpc::ByteBuffer& bytes, Tag& tag) override { stream_->Write(bytes, &tag); }
  bool readsToTheEnd() const override { return true; }
  void cancel() override { context_.TryCancel(); }

  // First no more is sent; then, when the server has said its last word, its status is asked for.
  void finishIfIdle() override {
    if (!isRunning_ || isSending() || isClosing_) return;
    if (isReading_) {
      if (std::exchange(isSilent_, true)) return;
      isClosing_ = true;
      return stream_->WritesDone(&silent_);
    }
    finish();
  }
  void finish() {
    if (!std::exchange(isFinishing_, true)) stream_->Finish(&status_, &finished_);
  }

  void onStarted(bool ok) {
    if (ok) {
      begin();
      const std::lock_guard lock(mutex_);
      if (isEnding_) finishIfIdle();
      return;
    }
    const std::lock_guard lock(mutex_);
    isEnding_ = true;
    finish();
  }
  void onSilent() {
    const std::lock_guard lock(mutex_);
    isClosing_ = false;
    if (!isReading_) finish();
  }
  void over() override {
    {
      const std::lock_guard lock(listening_);
      if (listener_ != nullptr) {
        std::exchange(listener_, nullptr)
            ->closed(status_.ok() ? "it closed the connection" : status_.error_message());
      }
    }
    const std::lock_guard lock(mutex_);
    isDone_ = true;
    done_.notify_all();
  }

  Poller& poller_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status status_;
  std::mutex listening_;  // over the listener, and while it is told something
  LinkListener* listener_;
  bool isClosing_ = false;  // WritesDone is under way
  bool isSilent_ = false;   // or has been
  std::condition_variable done_;
  bool isDone_ = false;
  Tag started_{[this](bool ok) { onStarted(ok); }};
  Tag silent_{[this](bool) { onSilent(); }};
  Tag finished_{[this](bool) { onFinished(); }};
};

class ClientEnd : public StreamLink<ClientStream> {
 public:
  using StreamLink::StreamLink;
  ~ClientEnd() override { stream_->leave(); }
  ClientEnd(const ClientEnd&) = delete;
  ClientEnd& operator=(const ClientEnd&) = delete;
};

}  // namespace

GrpcServers::GrpcServers(std::vector<std::string> addresses, const std::optional<Credentials>& credentials)
    : addresses_(std::move(addresses)),
      credentials_(credentials),
      poller_(std::make_unique<Poller>(std::make_unique<grpc::CompletionQueue>())) {
  silenceGrpc();
}
GrpcServers::~GrpcServers() = default;

std::string GrpcServers::nameOf(int server) const {
  return fmt::format("server {} at {}", server, addresses_[static_cast<std::size_t>(server)]);
}

std::unique_ptr<Link> GrpcServers::connect(int server, LinkListener& listener) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMilliseconds);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // See the listener.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // A connection of its own each time: a broken one must not be found again.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (credentials_) {
    credentials = grpc::SslCredentials({.pem_root_certs = credentials_->authority,
                                        .pem_private_key = credentials_->key,
                                        .pem_cert_chain = credentials_->certificate});
    arguments.SetSslTargetNameOverride(kRunHostName);
  }
  auto stream = std::make_shared<ClientStream>(
      grpc::CreateCustomChannel(addresses_[static_cast<std::size_t>(server)], credentials, arguments),
      *poller_, listener);
  stream->start(stream);
  return std::make_unique<ClientEnd>(std::move(stream));
}

}  // namespace cohort
