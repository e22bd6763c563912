#include "center/grpc_link.h"

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr const char* kMethod = "/cohort.Center/Connect";
constexpr std::size_t kLengthBytes = 4;
// Bytes of one link that were read and not yet dealt with.
constexpr std::size_t kMostUnread = std::size_t{32} << 20;
// A peer that does not answer for so long is gone; a cut network sends no word of it.
constexpr int kPingMilliseconds = 5000;
constexpr int kPongMilliseconds = 10000;
constexpr std::chrono::seconds kFarewell{5};

grpc::ByteBuffer toBytes(const wire::Envelope& head, std::span<const float> floats,
                         std::shared_ptr<const void> keep) {
  const std::size_t size = head.ByteSizeLong();
  grpc::Slice front(kLengthBytes + size);
  auto* bytes = const_cast<std::uint8_t*>(front.begin());
  const auto length = static_cast<std::uint32_t>(size);
  std::memcpy(bytes, &length, kLengthBytes);
  head.SerializeWithCachedSizesToArray(bytes + kLengthBytes);
  std::array<grpc::Slice, 2> slices{std::move(front)};
  std::size_t count = 1;
  if (!floats.empty()) {
    // The bytes stay where they are; gRPC says when it has done with them.
    auto* kept = new std::shared_ptr<const void>(std::move(keep));
    slices[count++] = grpc::Slice(
        const_cast<float*>(floats.data()), floats.size_bytes(),
        [](void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }, kept);
  }
  return {slices.data(), count};
}

// What was read, while somebody needs it.
struct Held {
  std::vector<grpc::Slice> slices;
  std::function<void(std::size_t)> release;
  std::size_t size = 0;

  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (release) release(size);
  }
};

// Nothing where the bytes are no message.
std::optional<Message> toMessage(const std::shared_ptr<Held>& held) {
  std::vector<std::span<const std::byte>> parts;
  for (const grpc::Slice& slice : held->slices) {
    if (slice.size() > 0) parts.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  std::size_t next = 0;
  // Takes the first bytes off; false where there are not so many.
  const auto take = [&](std::byte* to, std::size_t count) {
    while (count > 0 && next < parts.size()) {
      const std::size_t some = std::min(count, parts[next].size());
      std::memcpy(to, parts[next].data(), some);
      parts[next] = parts[next].subspan(some);
      if (parts[next].empty()) ++next;
      to += some;
      count -= some;
    }
    return count == 0;
  };
  std::uint32_t length = 0;
  if (!take(reinterpret_cast<std::byte*>(&length), kLengthBytes) || length > held->size) return std::nullopt;
  std::string head(length, '\0');
  Message message;
  if (!take(reinterpret_cast<std::byte*>(head.data()), length) || !message.head.ParseFromString(head))
    return std::nullopt;
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(next));
  message.payload = Payload(std::move(parts), held);
  return message;
}

// Both ends: `Reactor` is gRPC's. The object lives until gRPC has done with it. A worker's end reads on when it has ended: the
// server's last word comes behind all others.
template <class Reactor, bool kReadOn>
class Stream : public Reactor {
 public:
  void send(grpc::ByteBuffer bytes) {
    const std::lock_guard lock(mutex_);
    if (isEnding_) return;
    toSend_.push_back(std::move(bytes));
    if (toSend_.size() == 1) this->StartWrite(&toSend_.front());
  }

  // Ends when all was sent.
  void end() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(isEnding_, true)) return;
    if (toSend_.empty()) sentAll();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return readFailed();
    auto held = std::make_shared<Held>();
    read_.Dump(&held->slices);
    held->size = read_.Length();
    std::optional<Message> message = toMessage(held);
    if (!message) return readFailed();
    bool goOn = false;
    {
      const std::lock_guard lock(mutex_);
      unread_ += held->size;
      goOn = unread_ < kMostUnread;
      isPaused_ = !goOn;
      // The stream must be there as long as somebody may release what it read.
      held->release = [self = self_](std::size_t size) { self->released(size); };
    }
    held.reset();
    hear(std::move(*message));
    if (goOn) readOn();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    toSend_.pop_front();
    if (!ok) toSend_.clear();
    if (!toSend_.empty()) {
      this->StartWrite(&toSend_.front());
    } else if (isEnding_) {
      sentAll();
    }
  }

 protected:
  void beginReading() { this->StartRead(&read_); }
  virtual void hear(Message message) = 0;
  virtual void readFailed() = 0;
  // Under the mutex, once: everything was sent, and no more comes.
  virtual void sentAll() = 0;

  std::mutex mutex_;
  std::shared_ptr<Stream> self_;  // until gRPC has done with it

 private:
  void released(std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      unread_ -= size;
      if (!isPaused_ || unread_ >= kMostUnread / 2) return;
      isPaused_ = false;
    }
    readOn();
  }

  void readOn() {
    const std::lock_guard lock(mutex_);
    if (!isEnding_ || kReadOn) this->StartRead(&read_);
  }

  grpc::ByteBuffer read_;
  std::deque<grpc::ByteBuffer> toSend_;  // the first is being sent
  std::size_t unread_ = 0;
  bool isPaused_ = false;
  bool isEnding_ = false;
};

// ---- the server's end

class ServerStream : public Stream<grpc::ServerGenericBidiReactor, false> {
 public:
  // The link that a server has of it.
  class End : public Link {
   public:
    explicit End(std::shared_ptr<ServerStream> stream) : stream_(std::move(stream)) {}
    void send(const wire::Envelope& head, std::span<const float> floats,
              std::shared_ptr<const void> keep) override {
      stream_->send(toBytes(head, floats, std::move(keep)));
    }
    void close() override { stream_->end(); }

   private:
    std::shared_ptr<ServerStream> stream_;
  };

  static ServerStream* make(Inbox& inbox) {
    auto stream = std::make_shared<ServerStream>(inbox);
    stream->self_ = stream;
    inbox.put({.kind = Incoming::Kind::Opened, .link = stream->id_, .opened = std::make_shared<End>(stream)});
    stream->beginReading();
    return stream.get();
  }
  explicit ServerStream(Inbox& inbox) : inbox_(inbox), id_(inbox.newLink()) {}

  void OnCancel() override { end(); }
  void OnDone() override {
    inbox_.put({.kind = Incoming::Kind::Closed, .link = id_});
    std::shared_ptr<void> last;
    const std::lock_guard lock(mutex_);
    last = std::move(self_);
  }

 private:
  void hear(Message message) override {
    inbox_.put({.kind = Incoming::Kind::Received, .link = id_, .message = std::move(message)});
  }
  void readFailed() override { end(); }
  void sentAll() override {
    if (!std::exchange(isFinished_, true)) Finish(grpc::Status::OK);
  }

  Inbox& inbox_;
  LinkId id_;
  bool isFinished_ = false;
};

class Service : public grpc::CallbackGenericService {
 public:
  explicit Service(Inbox& inbox) : inbox_(inbox) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    if (context->method() != kMethod) return grpc::CallbackGenericService::CreateReactor(context);
    return ServerStream::make(inbox_);
  }

 private:
  Inbox& inbox_;
};

// ---- the worker's end

class ClientStream : public Stream<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, true> {
 public:
  ClientStream(const std::shared_ptr<grpc::Channel>& channel, LinkListener& listener)
      : stub_(channel), listener_(&listener) {}

  void begin(const std::shared_ptr<ClientStream>& self) {
    self_ = self;
    context_.set_wait_for_ready(false);
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // others than gRPC's callbacks start writing
    beginReading();
    StartCall();
  }

  // From now on nobody is told anything. Returns when gRPC has done with it, or it was cut.
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

  void OnDone(const grpc::Status& status) override {
    tellClosed(status.ok() ? "the connection was closed" : status.error_message());
    std::shared_ptr<void> last;
    const std::lock_guard lock(mutex_);
    isDone_ = true;
    done_.notify_all();
    last = std::move(self_);
  }

 private:
  void hear(Message message) override {
    const std::lock_guard lock(listening_);
    if (listener_ != nullptr) listener_->received(std::move(message));
  }
  void tellClosed(const std::string& why) {
    const std::lock_guard lock(listening_);
    if (listener_ != nullptr) std::exchange(listener_, nullptr)->closed(why);
  }
  void readFailed() override { end(); }
  void sentAll() override {
    StartWritesDone();
    RemoveHold();
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::mutex listening_;  // over the listener, and while it is told something
  LinkListener* listener_;
  std::condition_variable done_;
  bool isDone_ = false;
};

class ClientEnd : public Link {
 public:
  explicit ClientEnd(std::shared_ptr<ClientStream> stream) : stream_(std::move(stream)) {}
  ~ClientEnd() override { stream_->leave(); }
  ClientEnd(const ClientEnd&) = delete;
  ClientEnd& operator=(const ClientEnd&) = delete;

  void send(const wire::Envelope& head, std::span<const float> floats,
            std::shared_ptr<const void> keep) override {
    stream_->send(toBytes(head, floats, std::move(keep)));
  }
  void close() override { stream_->end(); }

 private:
  std::shared_ptr<ClientStream> stream_;
};

}  // namespace

class GrpcListener::Impl {
 public:
  Impl(const std::string& address, const std::optional<Credentials>& credentials, Inbox& inbox)
      : service_(inbox) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, serverCredentials(credentials), &port);
    builder.RegisterCallbackGenericService(&service_);
    builder.SetMaxReceiveMessageSize(kLargestMessage);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMilliseconds / 2);
    server_ = builder.BuildAndStart();
    if (!server_) throw IoError(fmt::format("cannot listen at {}; is another program there?", address));
    address_ = address;
    const std::size_t colon = address.rfind(':');
    if (!address.starts_with("unix:")) address_ = fmt::format("{}:{}", address.substr(0, colon), port);
  }
  ~Impl() { server_->Shutdown(std::chrono::system_clock::now()); }
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

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

GrpcListener::GrpcListener(const std::string& address, const std::optional<Credentials>& credentials,
                           Inbox& inbox)
    : impl_(std::make_unique<Impl>(address, credentials, inbox)) {}
GrpcListener::~GrpcListener() = default;

const std::string& GrpcListener::address() const {
  return impl_->address();
}

GrpcServers::GrpcServers(std::vector<std::string> addresses, const std::optional<Credentials>& credentials)
    : addresses_(std::move(addresses)), credentials_(credentials) {}
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
      listener);
  stream->begin(stream);
  return std::make_unique<ClientEnd>(std::move(stream));
}

}  // namespace cohort
