// Texts between workers, for what is not hurried: set-up, evaluations, checkpoints. All workers make the same calls of a
// channel in the same order; different channels do not disturb each other. A channel is used by one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace cohort {

class Channel {
 public:
  // The same small number on all workers.
  Channel(Communicator& workers, int number);

  // `what` names the occasion for the sentence of an error.
  void barrier(const std::string& what) const;
  // Every worker's text on the first worker, by rank; nothing on the others.
  std::vector<std::string> gather(const std::string& text, const std::string& what) const;
  // The first worker's text on all.
  std::string broadcast(const std::string& text, const std::string& what) const;

  Communicator& workers() const { return workers_; }

 private:
  void send(int to, const std::string& text, const std::string& what) const;
  std::string receive(int from, const std::string& what) const;

  Communicator& workers_;
  int lengthTag_;
  int textTag_;
};

}  // namespace cohort
