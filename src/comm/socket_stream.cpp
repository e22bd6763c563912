#include "comm/socket_stream.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kLook{1};

template <auto release>
struct Freed {
  template <class Object>
  void operator()(Object* object) const {
    release(object);
  }
};
using TlsContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Tls = std::unique_ptr<SSL, Freed<SSL_free>>;
using TextReader = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

[[noreturn]] void failGone() {
  throw PeerError("it has closed its connection");
}

bool isPassing(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

class PlainStream : public SocketStream {
 public:
  using SocketStream::SocketStream;

  std::size_t write(std::span<const std::byte> bytes) override {
    return moved(::send(socket().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  std::size_t read(std::span<std::byte> bytes) override {
    const ssize_t count = ::recv(socket().get(), bytes.data(), bytes.size(), 0);
    if (count == 0 && !bytes.empty()) failGone();
    return moved(count);
  }

 private:
  static std::size_t moved(ssize_t count) {
    if (count >= 0) return static_cast<std::size_t>(count);
    if (isPassing(errno)) return 0;
    throw PeerError(fmt::format("its connection is lost: {}", systemMessage(errno)));
  }
};

class TlsStream : public SocketStream {
 public:
  TlsStream(Descriptor socket, Tls tls) : SocketStream(std::move(socket)), tls_(std::move(tls)) {}

  std::size_t write(std::span<const std::byte> bytes) override {
    std::size_t count = 0;
    const int code = SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &count);
    return moved(code, count);
  }
  std::size_t read(std::span<std::byte> bytes) override {
    std::size_t count = 0;
    const int code = SSL_read_ex(tls_.get(), bytes.data(), bytes.size(), &count);
    return moved(code, count);
  }

 private:
  std::size_t moved(int code, std::size_t count) {
    if (code == 1) return count;
    const int error = SSL_get_error(tls_.get(), code);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
    ERR_clear_error();
    failGone();
  }

  Tls tls_;
};

TextReader readerOf(const std::string& text) {
  return TextReader(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

void require(bool isGood, const char* what) {
  if (isGood) return;
  ERR_clear_error();
  throw UsageError(fmt::format(
      "the run's credentials have no {} that TLS can use; make them again (cohort credentials FILE)", what));
}

// Those of other kinds of sockets do not know these options, and need none: their other ends are on this host.
void limitSilence(const Descriptor& socket, double seconds) {
  const int all = std::max(1, static_cast<int>(seconds));
  const int on = 1;
  const int between = std::max(1, all / 3);
  const auto milliseconds = static_cast<unsigned>(1000 * all);  // while something is not acknowledged
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &between, sizeof between);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

}  // namespace

bool SocketStream::hasEnded() const {
  pollfd end{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void SocketStream::writeAll(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const std::size_t count = write(bytes);
    bytes = bytes.subspan(count);
    if (count > 0) continue;
    if (Clock::now() > deadline) throw PeerError("it does not listen");
    std::this_thread::sleep_for(kLook);
  }
}

void SocketStream::readAll(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const std::size_t count = read(bytes);
    bytes = bytes.subspan(count);
    if (count > 0) continue;
    if (Clock::now() > deadline) throw PeerError("it says nothing");
    std::this_thread::sleep_for(kLook);
  }
}

struct StreamMaker::Context {
  TlsContext tls;
  std::string name;
};

StreamMaker::StreamMaker(const std::optional<MeshCredentials>& credentials, double silence)
    : silence_(silence) {
  if (!credentials) return;
  context_ = std::make_unique<Context>(
      Context{.tls = TlsContext(SSL_CTX_new(TLS_method())), .name = credentials->name});
  SSL_CTX* const tls = context_->tls.get();
  require(tls != nullptr && SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) == 1, "protocol");
  const Certificate authority(
      PEM_read_bio_X509(readerOf(credentials->authority).get(), nullptr, nullptr, nullptr));
  const Certificate own(
      PEM_read_bio_X509(readerOf(credentials->certificate).get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_bio_PrivateKey(readerOf(credentials->key).get(), nullptr, nullptr, nullptr));
  require(authority && X509_STORE_add_cert(SSL_CTX_get_cert_store(tls), authority.get()) == 1, "authority");
  require(own && SSL_CTX_use_certificate(tls, own.get()) == 1, "certificate");
  require(key && SSL_CTX_use_PrivateKey(tls, key.get()) == 1, "key");
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

StreamMaker::~StreamMaker() = default;

std::unique_ptr<SocketStream> StreamMaker::make(Descriptor socket, Side side,
                                                SocketStream::Deadline deadline) const {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (silence_ > 0) limitSilence(socket, silence_);
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    throw PeerError(fmt::format("a connection cannot be used: {}", systemMessage(errno)));
  if (!context_) return std::make_unique<PlainStream>(std::move(socket));
  Tls tls(SSL_new(context_->tls.get()));
  if (!tls || SSL_set_fd(tls.get(), socket.get()) != 1 ||
      SSL_set1_host(tls.get(), context_->name.c_str()) != 1)
    throw PeerError("a connection cannot be made safe");
  const bool connects = side == Side::Connected;
  for (;;) {
    const int code = connects ? SSL_connect(tls.get()) : SSL_accept(tls.get());
    if (code == 1) return std::make_unique<TlsStream>(std::move(socket), std::move(tls));
    const int error = SSL_get_error(tls.get(), code);
    const bool goesOn = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    if (!goesOn || Clock::now() > deadline) throw PeerError("it does not prove that it belongs to the run");
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace cohort
