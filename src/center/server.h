// One server of a center, in this process: a thread of its own that does everything in turn, and the ways to it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "center/credentials.h"

namespace cohort {

class Connector;

class CenterServer {
 public:
  struct Options {
    int index = 0;
    int count = 1;
    std::string
        listen{};  // "HOST:PORT" (port 0: any that is free) or "unix:PATH"; empty: for this process alone
    std::optional<Credentials> credentials{};  // nothing: anybody who reaches the address may come
    std::filesystem::path snapshot{};          // a file to keep its state in; empty: none
    double snapshotSeconds = 30;               // between them
    std::filesystem::path journals{};  // a folder for the order of its updates (journal.h); empty: none
    std::function<void(const std::string&)> warn = [](const std::string&) {};  // on any thread
  };

  // IoError where the address cannot be had.
  explicit CenterServer(const Options& options);
  // Ends all connections.
  ~CenterServer();
  CenterServer(const CenterServer&) = delete;
  CenterServer& operator=(const CenterServer&) = delete;

  // As workers name it.
  std::string address() const;
  // The run ends as soon as what is begun is finished. False where there is none.
  bool halt();
  bool hasWorkers() const;
  void wait(double seconds);
  // Whether the run is over, at once or within this time.
  bool isOver(double seconds = 0);

 private:
  friend std::shared_ptr<Connector> connectorTo(const std::vector<CenterServer*>& servers);
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
