// Bytes of strangers as messages of a center. The first byte says where gRPC would have cut them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <google/protobuf/stubs/logging.h>

#include "center/grpc_frame.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace cohort;

std::optional<CenterMessage> parse(std::span<const std::uint8_t> bytes, std::size_t piece) {
  auto held = std::make_shared<Held>();
  while (!bytes.empty()) {
    const std::size_t some = std::min(bytes.size(), piece);
    held->slices.emplace_back(bytes.data(), some);
    bytes = bytes.subspan(some);
  }
  held->slices.emplace_back();  // an empty one does no harm
  return toMessage(held);
}

std::vector<std::byte> payloadOf(const CenterMessage& message) {
  std::vector<std::byte> payload(message.payload.size());
  message.payload.copyTo(payload);
  return payload;
}

void requireSame(const std::optional<CenterMessage>& found, const CenterMessage& expected) {
  if (!found) failFuzzing("The same bytes are a message, and none.");
  if (found->head.SerializeAsString() != expected.head.SerializeAsString())
    failFuzzing("An envelope depends on how its bytes were cut.");
  if (payloadOf(*found) != payloadOf(expected)) failFuzzing("A payload depends on how its bytes were cut.");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer kQuiet;
  if (size == 0) return 0;
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  const std::optional<CenterMessage> cut = parse(bytes, 1U + data[0]);
  const std::optional<CenterMessage> whole = parse(bytes, bytes.size() + 1);
  if (!cut) {
    if (whole) failFuzzing("The same bytes are a message, and none.");
    return 0;
  }
  requireSame(whole, *cut);
  const std::vector<std::byte> payload = payloadOf(*cut);
  const std::span<const std::byte> end = std::as_bytes(bytes.last(std::min(payload.size(), bytes.size())));
  if (!std::ranges::equal(payload, end)) failFuzzing("A payload is not the end of its message.");
  if (costOf(*cut) <= payload.size()) failFuzzing("An envelope costs nothing.");

  // What a sender would make of it is the same message.
  const auto floats = std::make_shared<std::vector<float>>(payload.size() / sizeof(float));
  if (!floats->empty()) std::memcpy(floats->data(), payload.data(), floats->size() * sizeof(float));
  const grpc::ByteBuffer sent = toBytes(cut->head, *floats, floats);
  auto held = std::make_shared<Held>();
  if (!sent.Dump(&held->slices).ok()) failFuzzing("What is sent cannot be read.");
  const std::optional<CenterMessage> again = toMessage(held);
  if (payload.size() % sizeof(float) == 0) requireSame(again, *cut);
  return 0;
}
