#include "center/grpc_listener.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "base/error.h"
#include "center/grpc_stream.h"

namespace cohort {
namespace {

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

}  // namespace cohort
