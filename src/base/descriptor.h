// A file descriptor with one owner, closed when the owner goes.
#pragma once

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace cohort {

// Used by one thread at a time, as an int is; any number of threads may call `get`.
class Descriptor {
 public:
  Descriptor() = default;
  // What ::open and its like gave. Where that is negative there is nothing to own, and errno stays as they left it.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  explicit operator bool() const { return number_ >= 0; }
  int get() const { return number_; }
  // For those who report it: 0, or the error of which some file systems tell only now.
  int close() noexcept {
    const int number = std::exchange(number_, -1);
    return number >= 0 && ::close(number) != 0 ? errno : 0;
  }

 private:
  int number_ = -1;
};

}  // namespace cohort
