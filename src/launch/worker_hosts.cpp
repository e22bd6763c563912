#include "launch/worker_hosts.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace cohort {

std::string withHosts(const std::string& sentence, const std::vector<WorkerCores>& workers) {
  constexpr std::string_view kWord = "worker ";
  constexpr std::string_view kOn = " on ";
  const bool isOneHost = std::ranges::all_of(
      workers, [&](const WorkerCores& worker) { return worker.host == workers.front().host; });
  if (isOneHost) return sentence;
  std::string text;
  std::size_t done = 0;
  for (std::size_t at = sentence.find(kWord); at != std::string::npos; at = sentence.find(kWord, done)) {
    std::size_t end = at + kWord.size();
    std::size_t number = 0;
    while (end < sentence.size() && std::isdigit(static_cast<unsigned char>(sentence[end])) != 0 &&
           number < workers.size()) {
      number = 10 * number + static_cast<std::size_t>(sentence[end++] - '0');
    }
    text += sentence.substr(done, end - done);
    const bool isNamed = sentence.compare(end, kOn.size(), kOn) == 0;  // with its host already
    if (end > at + kWord.size() && number < workers.size() && !isNamed)
      text += std::string(kOn) + workers[number].host;
    done = end;
  }
  return text + sentence.substr(done);
}

}  // namespace cohort
