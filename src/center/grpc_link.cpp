#include "center/grpc_link.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <grpc/support/log.h>
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

// gRPC writes lines of its own to stderr for each failed handshake; what concerns people is said in errors. With its variable
// for that (GRPC_VERBOSITY) they are there again.
void silenceGrpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

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

// What gRPC says when something that was begun has ended.
struct Tag {
  std::function<void(bool ok)> ended;
};

}  // namespace

// A thread that hears of everything that ends. gRPC's own threads for callbacks come and go with the last connection, and 1.51
// frees their queue twice now and then.
class Poller {
 public:
  explicit Poller(std::unique_ptr<grpc::CompletionQueue> queue)
      : queue_(std::move(queue)), thread_([this] { run(); }) {}
  // All that was begun has ended, or ends now.
  ~Poller() {
    queue_->Shutdown();
    thread_.join();
  }
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  grpc::CompletionQueue& queue() { return *queue_; }
  // Before the first call with tags that another thread has made: this one sees them whole. gRPC orders that too, but where no
  // sanitizer sees it.
  void handOver() { handedOver_.fetch_add(1, std::memory_order_release); }

 private:
  void run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      (void)handedOver_.load(std::memory_order_acquire);
      const auto ended = static_cast<Tag*>(tag)->ended;  // the tag may go with it
      ended(ok);
    }
  }

  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::atomic<std::uint64_t> handedOver_ = 0;
  std::thread thread_;
};

namespace {

// Both ends of a stream: one read and one write at a time, then the finish. The object lives until that has ended.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void send(grpc::ByteBuffer bytes) {
    const std::lock_guard lock(mutex_);
    if (isEnding_) return;
    toSend_.push_back(std::move(bytes));
    if (isRunning_ && toSend_.size() == 1) startWrite(toSend_.front(), wrote_);
  }

  // Ends when all was sent.
  void end() {
    const std::lock_guard lock(mutex_);
    isEnding_ = true;
    finishIfIdle();
  }

 protected:
  Stream() = default;

  // The call is there: from now on both ways are open.
  void begin() {
    const std::lock_guard lock(mutex_);
    isRunning_ = true;
    isReading_ = true;
    startRead(received_, read_);
    if (!toSend_.empty()) startWrite(toSend_.front(), wrote_);
  }

  virtual void hear(Message message) = 0;
  virtual void startRead(grpc::ByteBuffer& bytes, Tag& tag) = 0;
  virtual void startWrite(const grpc::ByteBuffer& bytes, Tag& tag) = 0;
  // Under the mutex, when nothing is being sent any more.
  virtual void finishIfIdle() = 0;
  // A worker's end reads on when it has ended: the server's last word comes behind all others.
  virtual bool readsToTheEnd() const = 0;

  bool isSending() const { return !toSend_.empty(); }

  std::mutex mutex_;
  std::shared_ptr<Stream> self_;  // until gRPC has done with it
  bool isRunning_ = false;
  bool isReading_ = false;
  bool isEnding_ = false;

 private:
  void onRead(bool ok) {
    auto held = std::make_shared<Held>();
    std::optional<Message> message;
    if (ok) {
      received_.Dump(&held->slices);
      held->size = received_.Length();
      message = toMessage(held);
    }
    if (!message) {
      const std::lock_guard lock(mutex_);
      isReading_ = false;
      isEnding_ = true;
      return finishIfIdle();
    }
    {
      const std::lock_guard lock(mutex_);
      unread_ += held->size;
      held->release = [self = self_](std::size_t size) { self->released(size); };
    }
    held.reset();
    hear(std::move(*message));
    const std::lock_guard lock(mutex_);
    isReading_ = false;
    readOn();
  }

  void released(std::size_t size) {
    const std::lock_guard lock(mutex_);
    unread_ -= size;
    readOn();
  }

  void readOn() {
    if (isReading_ || !self_) return;
    if (isEnding_ && !readsToTheEnd()) return finishIfIdle();
    if (unread_ >= kMostUnread) return;
    isReading_ = true;
    startRead(received_, read_);
  }

  void onWrote(bool ok) {
    const std::lock_guard lock(mutex_);
    toSend_.pop_front();
    if (!ok) {
      toSend_.clear();
      isEnding_ = true;
    }
    if (!toSend_.empty()) return startWrite(toSend_.front(), wrote_);
    if (isEnding_) finishIfIdle();
  }

  Tag read_{[this](bool ok) { onRead(ok); }};
  Tag wrote_{[this](bool ok) { onWrote(ok); }};
  grpc::ByteBuffer received_;
  std::deque<grpc::ByteBuffer> toSend_;  // the first is being sent
  std::size_t unread_ = 0;
};

// ---- the server's end

class ServerStream : public Stream {
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

  // Waits for the next worker; when one has come, for another.
  static void await(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue, Inbox& inbox) {
    auto stream = std::make_shared<ServerStream>(inbox);
    stream->self_ = stream;
    stream->came_.ended = [&service, &queue, &inbox, raw = stream.get()](bool ok) {
      if (!ok) return raw->forget();
      await(service, queue, inbox);
      raw->come();
    };
    service.RequestCall(&stream->context_, &stream->stream_, &queue, &queue, &stream->came_);
  }
  explicit ServerStream(Inbox& inbox) : inbox_(inbox), id_(inbox.newLink()) {}

 private:
  void come() {
    if (context_.method() != kMethod) {
      const std::lock_guard lock(mutex_);
      isFinishing_ = isEnding_ = true;
      return stream_.Finish({grpc::StatusCode::UNIMPLEMENTED, "there is no such method"}, &finished_);
    }
    inbox_.put({.kind = Incoming::Kind::Opened,
                .link = id_,
                .opened = std::make_shared<End>(std::static_pointer_cast<ServerStream>(self_))});
    begin();
  }
  void forget() {
    std::shared_ptr<void> last;
    const std::lock_guard lock(mutex_);
    last = std::move(self_);
  }

  void hear(Message message) override {
    inbox_.put({.kind = Incoming::Kind::Received, .link = id_, .message = std::move(message)});
  }
  void startRead(grpc::ByteBuffer& bytes, Tag& tag) override { stream_.Read(&bytes, &tag); }
  void startWrite(const grpc::ByteBuffer& bytes, Tag& tag) override { stream_.Write(bytes, &tag); }
  bool readsToTheEnd() const override { return false; }
  void finishIfIdle() override {
    if (isSending() || std::exchange(isFinishing_, true)) return;
    stream_.Finish(grpc::Status::OK, &finished_);
  }

  Inbox& inbox_;
  LinkId id_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  bool isFinishing_ = false;
  Tag came_;
  Tag finished_{[this](bool) {
    inbox_.put({.kind = Incoming::Kind::Closed, .link = id_});
    forget();
  }};
};

// ---- the worker's end

class ClientStream : public Stream {
 public:
  ClientStream(std::shared_ptr<grpc::Channel> channel, Poller& poller, LinkListener& listener)
      : poller_(poller), stub_(std::move(channel)), listener_(&listener) {}

  void start(const std::shared_ptr<ClientStream>& self) {
    self_ = self;
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
  void hear(Message message) override {
    const std::lock_guard lock(listening_);
    if (listener_ != nullptr) listener_->received(std::move(message));
  }
  void startRead(grpc::ByteBuffer& bytes, Tag& tag) override { stream_->Read(&bytes, &tag); }
  void startWrite(const grpc::ByteBuffer& bytes, Tag& tag) override { stream_->Write(bytes, &tag); }
  bool readsToTheEnd() const override { return true; }

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
  void onFinished() {
    {
      const std::lock_guard lock(listening_);
      if (listener_ != nullptr) {
        std::exchange(listener_, nullptr)
            ->closed(status_.ok() ? "it closed the connection" : status_.error_message());
      }
    }
    std::shared_ptr<void> last;
    const std::lock_guard lock(mutex_);
    isDone_ = true;
    done_.notify_all();
    last = std::move(self_);
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
  bool isFinishing_ = false;
  std::condition_variable done_;
  bool isDone_ = false;
  Tag started_{[this](bool ok) { onStarted(ok); }};
  Tag silent_{[this](bool) { onSilent(); }};
  Tag finished_{[this](bool) { onFinished(); }};
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
  Impl(const std::string& address, const std::optional<Credentials>& credentials, Inbox& inbox) {
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
    server_ = builder.BuildAndStart();
    if (!server_) throw IoError(fmt::format("cannot listen at {}; is another program there?", address));
    address_ = address;
    const std::size_t colon = address.rfind(':');
    if (!address.starts_with("unix:")) address_ = fmt::format("{}:{}", address.substr(0, colon), port);
    grpc::ServerCompletionQueue& calls = *queue;
    ServerStream::await(service_, calls, inbox);  // before there is a thread that could hear of it
    poller_.emplace(std::move(queue));
  }
  ~Impl() {
    server_->Shutdown(std::chrono::system_clock::now());
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
  std::optional<Poller> poller_;
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
