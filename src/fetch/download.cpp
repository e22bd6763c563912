#include "fetch/download.h"

#include <array>
#include <exception>
#include <memory>
#include <string_view>

#include <curl/curl.h>
#include <fmt/format.h>

#include "base/error.h"
#include "fetch/failure.h"
#include "fetch/output_file.h"

namespace cohort {
namespace {

constexpr long kConnectSeconds = 5;
constexpr long kSlowestBytesPerSecond = 500;
constexpr long kSlowSeconds = 20;
constexpr int kMostConnections = 20;
constexpr long kPartialContent = 206;
constexpr long kRangeNotSatisfiable = 416;

// One connection: asks for what `file` lacks and appends it.
class Connection {
 public:
  Connection(const Download& what, OutputFile& file, FetchObserver& observer);

  // Whether the file is complete now, for all that the server says. Throws as `download` does where another connection
  // would be no better; otherwise `reason` is why there should be one.
  bool run();
  const std::string& reason() const { return reason_; }

 private:
  template <typename T>
  void set(CURLoption option, T value) {
    COHORT_CHECK(curl_easy_setopt(curl_.get(), option, value) == CURLE_OK, "libcurl does not know an option");
  }
  template <typename T>
  T info(CURLINFO which) const {
    T value{};
    curl_easy_getinfo(curl_.get(), which, &value);
    return value;
  }
  void setOptions();
  static std::size_t receive(char* data, std::size_t one, std::size_t size, void* self) noexcept;
  void append(std::span<const std::byte> bytes);
  bool judge(CURLcode result);

  const Download& what_;
  OutputFile& file_;
  FetchObserver& observer_;
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
  std::array<char, CURL_ERROR_SIZE> message_{};
  std::string range_;
  std::string reason_;
  std::uint64_t start_ = 0;  // where in the file this connection's bytes begin
  bool begun_ = false;
  std::exception_ptr failure_;  // must not pass through libcurl
};

Connection::Connection(const Download& what, OutputFile& file, FetchObserver& observer)
    : what_(what), file_(file), observer_(observer), curl_(nullptr, curl_easy_cleanup) {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  curl_.reset(started ? curl_easy_init() : nullptr);
  if (curl_ == nullptr) throw IoError("libcurl cannot be started on this machine.");
  setOptions();
}

void Connection::setOptions() {
  set(CURLOPT_URL, what_.address.c_str());
  set(CURLOPT_ERRORBUFFER, message_.data());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_PROTOCOLS_STR, "http,https,file");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_USERAGENT, "cohort");
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, kSlowestBytesPerSecond);
  set(CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
  set(CURLOPT_WRITEFUNCTION, &Connection::receive);
  set(CURLOPT_WRITEDATA, this);
  // A local file comes from its beginning: that is quick enough, and there is no answer that says what was sent.
  if (file_.size() > 0 && !what_.address.starts_with("file:")) {
    start_ = file_.size();
    range_ = fmt::format("{}-", start_);
    set(CURLOPT_RANGE, range_.c_str());
  }
}

std::size_t Connection::receive(char* data, std::size_t /*one*/, std::size_t size, void* self) noexcept {
  auto& connection = *static_cast<Connection*>(self);
  try {
    connection.append(std::as_bytes(std::span(data, size)));
    return size;
  } catch (...) {
    connection.failure_ = std::current_exception();
    return 0;
  }
}

void Connection::append(std::span<const std::byte> bytes) {
  if (!begun_) {
    begun_ = true;
    // Anything but "partial content" is the whole file from its beginning.
    if (start_ > 0 && info<long>(CURLINFO_RESPONSE_CODE) != kPartialContent) start_ = 0;
    if (start_ == 0) file_.clear();
  }
  if (file_.size() + bytes.size() > what_.limit) {
    throw Damaged(fmt::format("it is longer than {} bytes", what_.limit));
  }
  file_.write(bytes);
  const auto length = info<curl_off_t>(CURLINFO_CONTENT_LENGTH_DOWNLOAD_T);
  observer_.transferred(what_.name, file_.size(),
                        length > 0 ? start_ + static_cast<std::uint64_t>(length) : 0);
}

bool Connection::run() {
  const CURLcode result = curl_easy_perform(curl_.get());
  if (failure_) std::rethrow_exception(failure_);
  return judge(result);
}

bool Connection::judge(CURLcode result) {
  if (result == CURLE_OK) {
    if (!begun_ && start_ == 0) file_.clear();  // an empty file
    return true;
  }
  const std::string text = message_[0] == 0 ? curl_easy_strerror(result) : message_.data();
  switch (result) {
    case CURLE_HTTP_RETURNED_ERROR:
      if (info<long>(CURLINFO_RESPONSE_CODE) == kRangeNotSatisfiable && start_ > 0) {
        // All that there is has come before, or what came before is not of this file.
        file_.clear();
        reason_ = text;
        return false;
      }
      throw Unavailable(text);
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2_STREAM:
    case CURLE_OPERATION_TIMEDOUT:
      if (begun_) {
        reason_ = text;
        return false;
      }
      [[fallthrough]];
    default:
      throw Unavailable(text);
  }
}

}  // namespace

void download(const Download& what, FetchObserver& observer) {
  OutputFile file(what.part, OutputFile::Mode::Append);
  std::uint64_t furthest = 0;
  for (int connections = 1;; ++connections) {
    Connection connection(what, file, observer);
    if (connection.run()) break;
    const bool gotFurther = file.size() > furthest || file.size() == 0;
    if (!gotFurther || connections == kMostConnections) {
      throw Unavailable(fmt::format("the connection broke {} times ({})", connections, connection.reason()));
    }
    furthest = file.size();
  }
  file.close();
}

}  // namespace cohort
