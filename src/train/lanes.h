// A worker's threads. The caller is lane 0; the others wait for work, briefly awake (a step of a small network takes
// less than a sleep and a wake-up), then asleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cohort {

class Lanes {
 public:
  // Each lane works on its core of `cores`, where there are as many; otherwise the system places them.
  explicit Lanes(int count, std::vector<int> cores = {});
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  int count() const { return count_; }

  // Runs work(lane) on every lane; returns when all are done. The first exception is thrown again here, after all have
  // ended; work that uses meet() must not throw before it.
  void run(const std::function<void(int lane)>& work);
  // From inside work, by every lane: goes on when all have come.
  void meet();

 private:
  void serve(int lane);
  bool isPinned() const { return static_cast<int>(cores_.size()) >= count_; }
  void pin(int lane) const;
  void runOne(int lane);
  void runPinned();

  int count_;
  std::vector<int> cores_;
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<std::uint32_t> round_ = 0;  // goes up when there is work
  std::atomic<int> busy_ = 0;             // lanes still working
  std::atomic<int> arrived_ = 0;          // at meet()
  std::atomic<std::uint32_t> meetings_ = 0;
  bool stop_ = false;
  std::mutex failureMutex_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

}  // namespace cohort
