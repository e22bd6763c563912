#include "center/grpc_listener.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "base/error.h"
#include "center/grpc_stream.h"

namespace cohort {
namespace {

// A connection on which nobody speaks.
constexpr int kSilentMilliseconds = 20'000;

class ServerStream;

// Those that gRPC has not done with. Thread-safe.
class Streams {
 public:
  explicit Streams(std::size_t most) : most_(most) {}

  // False when the end has come: nothing may be begun any more.
  bool add(const std::shared_ptr<ServerStream>& stream) {
    const std::lock_guard lock(mutex_);
    if (isEnding_) return false;
    all_.emplace(stream.get(), stream);
    return true;
  }
  void remove(const ServerStream* stream) {
    const std::lock_guard lock(mutex_);
    all_.erase(stream);
    if (all_.empty()) gone_.notify_all();
  }
  // One more waits for a connection.
  bool areTooMany() const {
    const std::lock_guard lock(mutex_);
    return all_.size() > most_ + 1;
  }
  bool isEnding() const {
    const std::lock_guard lock(mutex_);
    return isEnding_;
  }
  // No more are added. Those that are there.
  std::vector<std::shared_ptr<ServerStream>> end();
  void awaitNone() {
    std::unique_lock lock(mutex_);
    gone_.wait(lock, [this] { return all_.empty(); });
  }

 private:
  std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable gone_;
  std::map<const ServerStream*, std::weak_ptr<ServerStream>> all_;
  bool isEnding_ = false;
};

class ServerStream : public Stream {
 public:
  using End = StreamLink<ServerStream>;

  struct Place {
    grpc::AsyncGenericService& service;
    grpc::ServerCompletionQueue& queue;
    Streams& streams;
    Inbox& inbox;
    UnsentLimits unsent;
  };
  // Waits for the next worker; when one has come, for another.
  static void await(const Place& place) {
    auto stream = std::make_shared<ServerStream>(place);
    stream->keepAlive(stream);  // before the end can cut it
    if (!place.streams.add(stream)) return stream->forget();
    Call& call = *stream->call_;
    stream->came_.ended = [place, raw = stream.get()](bool ok) {
      if (!ok) return raw->forget();
      await(place);
      raw->come();
    };
    place.service.RequestCall(&call.context, &call.stream, &place.queue, &place.queue, &stream->came_);
  }
  explicit ServerStream(const Place& place)
      : Stream(place.unsent), streams_(place.streams), inbox_(place.inbox), id_(place.inbox.newLink()) {}

 private:
  void come() {
    const std::shared_ptr<Stream> alive = self();
    {
      const std::lock_guard lock(mutex_);
      hasCome_ = true;
      if (call_->context.method() != kMethod)
        return finish({grpc::StatusCode::UNIMPLEMENTED, "there is no such method"});
      if (streams_.areTooMany())
        return finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "there are too many connections"});
      // Nobody cuts it later.
      if (streams_.isEnding()) return finish({grpc::StatusCode::UNAVAILABLE, "the server ends"});
    }
    // What is read is heard on this thread, and so after this.
    begin();
    isOpened_ = true;
    inbox_.put({.kind = Incoming::Kind::Opened,
                .link = id_,
                .opened = std::make_shared<End>(std::static_pointer_cast<ServerStream>(alive))});
  }

  void hear(CenterMessage message) override {
    inbox_.put({.kind = Incoming::Kind::Received, .link = id_, .message = std::move(message)});
  }
  void startRead(grpc::ByteBuffer& bytes, Tag& tag) override { call_->stream.Read(&bytes, &tag); }
  void startWrite(const grpc::ByteBuffer& bytes, Tag& tag) override { call_->stream.Write(bytes, &tag); }
  bool readsToTheEnd() const override { return false; }
  void cancel() override {
    if (hasCome_) call_->context.TryCancel();
  }
  void finishIfIdle() override {
    if (hasCome_ && !isSending()) finish(grpc::Status::OK);
  }
  void finish(const grpc::Status& status) {
    if (std::exchange(isFinishing_, true)) return;
    isEnding_ = true;
    call_->stream.Finish(status, &finished_);
  }
  // Whoever still has its link has nothing of gRPC's: that may be gone before.
  void over() override {
    {
      const std::lock_guard lock(mutex_);
      call_.reset();
    }
    if (isOpened_) inbox_.put({.kind = Incoming::Kind::Closed, .link = id_});
    streams_.remove(this);
  }

  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
  };
  Streams& streams_;
  Inbox& inbox_;
  LinkId id_;
  std::unique_ptr<Call> call_ = std::make_unique<Call>();
  bool hasCome_ = false;
  bool isOpened_ = false;
  Tag came_;
  Tag finished_{[this](bool) { onFinished(); }};
};

std::vector<std::shared_ptr<ServerStream>> Streams::end() {
  const std::lock_guard lock(mutex_);
  isEnding_ = true;
  std::vector<std::shared_ptr<ServerStream>> alive;
  for (const auto& [raw, stream] : all_) {
    if (std::shared_ptr<ServerStream> one = stream.lock()) alive.push_back(std::move(one));
  }
  return alive;
}

}  // namespace

class GrpcListener::Impl {
 public:
  Impl(const std::string& address, const std::optional<Credentials>& credentials, Inbox& inbox,
       const GrpcLimits& limits)
      : streams_(limits.streams) {
    silenceGrpc();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, serverCredentials(credentials), &port);
    builder.RegisterAsyncGenericService(&service_);
    std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
    builder.SetMaxReceiveMessageSize(kLargestMessage);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMilliseconds / 2);
    // A worker has one; who has more wants to keep others out.
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kSilentMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kSilentMilliseconds);
    // gRPC measures a compressed message before it inflates it, and nobody here compresses.
    builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
      builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
    server_ = builder.BuildAndStart();
    if (!server_) throw IoError(fmt::format("cannot listen at {}; is another program there?", address));
    address_ = address;
    const std::size_t colon = address.rfind(':');
    if (!address.starts_with("unix:")) address_ = fmt::format("{}:{}", address.substr(0, colon), port);
    grpc::ServerCompletionQueue& calls = *queue;
    ServerStream::await(
        {service_, calls, streams_, inbox, limits.unsent});  // before there is a thread that could hear of it
    poller_.emplace(std::move(queue));
  }
  ~Impl() {
    for (const std::shared_ptr<ServerStream>& stream : streams_.end()) stream->cut();
    server_->Shutdown(std::chrono::system_clock::now());
    streams_.awaitNone();
    poller_.reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::string& address() const { return address_; }

 private:
  static std::shared_ptr<grpc::ServerCredentials> serverCredentials(const std::optional<Credentials>& own) {
    if (!own) return grpc::InsecureServerCredentials();
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = own->authority;
    options.pem_key_cert_pairs = {{own->key, own->certificate}};
    return grpc::SslServerCredentials(options);
  }

  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::Server> server_;
  Streams streams_;
  std::optional<Poller> poller_;
  std::string address_;
};

GrpcListener::GrpcListener(const std::string& address, const std::optional<Credentials>& credentials,
                           Inbox& inbox, const GrpcLimits& limits)
    : impl_(std::make_unique<Impl>(address, credentials, inbox, limits)) {}
GrpcListener::~GrpcListener() = default;

const std::string& GrpcListener::address() const {
  return impl_->address();
}

}  // namespace cohort
