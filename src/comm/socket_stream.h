// Bytes to and from one other process, over TCP or a socket of one host, plain or as TLS with certificates on both sides. Private to comm.
//
// Nothing waits but for its opening. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "comm/mesh_transport.h"

namespace cohort {

class SocketStream {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit SocketStream(Descriptor socket) : socket_(std::move(socket)) {}
  virtual ~SocketStream() = default;
  SocketStream(const SocketStream&) = delete;
  SocketStream& operator=(const SocketStream&) = delete;
  // How many bytes were taken; 0: none just now. PeerError where the other end is gone.
  virtual std::size_t write(std::span<const std::byte> bytes) = 0;
  virtual std::size_t read(std::span<std::byte> bytes) = 0;

  // All of them, while the other end is not dead by then: PeerError.
  void writeAll(std::span<const std::byte> bytes, Deadline deadline);
  void readAll(std::span<std::byte> bytes, Deadline deadline);

  // Whether the other end is known to be gone, whatever it has sent before.
  bool hasEnded() const;

 protected:
  const Descriptor& socket() const { return socket_; }

 private:
  Descriptor socket_;
};

// What streams of one run are made with.
class StreamMaker {
 public:
  // The other end of a TCP stream is gone where it has not answered for `silence` seconds; 0: as long as the system waits. UsageError
  // where the texts are none.
  StreamMaker(const std::optional<MeshCredentials>& credentials, double silence);
  ~StreamMaker();
  StreamMaker(const StreamMaker&) = delete;
  StreamMaker& operator=(const StreamMaker&) = delete;

  // Of a connected socket. PeerError where the other end does not prove by then that it belongs to the run.
  enum class Side { Connected, Accepted };
  std::unique_ptr<SocketStream> make(Descriptor socket, Side side, SocketStream::Deadline deadline) const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;  // nothing: plain
  double silence_;
};

}  // namespace cohort
