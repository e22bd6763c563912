// Where a center is, while it is there: FOLDER/center.txt, for those who look at it. A supervised run's names all servers; one of
// a server that was started by hand names that server, and those of others but the first are called center-K.txt.
//
//   center.txt := ADDRESS[,ADDRESS]… newline [the file of its credentials newline]
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

// Removed again with this, however its process's work ends, but for a kill.
class CenterFile {
 public:
  // The servers from number `first` on. IoError where it cannot be written.
  CenterFile(const std::filesystem::path& folder, int first, const std::vector<std::string>& addresses,
             const std::filesystem::path& credentials = {});
  ~CenterFile() { remove(); }
  CenterFile(const CenterFile&) = delete;
  CenterFile& operator=(const CenterFile&) = delete;

  void remove() const noexcept;

 private:
  std::filesystem::path file_;
};

struct CenterPlaces {
  struct Server {
    int index = 0;
    std::string address;
  };
  std::vector<Server> servers{};        // by index; none: no center is there
  std::filesystem::path credentials{};  // empty: none
};

// What stands in a folder's files. IoError where one cannot be read.
CenterPlaces readCenterFiles(const std::filesystem::path& folder);

}  // namespace cohort
