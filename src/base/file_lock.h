// A lock between processes: a file that one of them holds at a time, or several that share it. Whoever ends, even by a kill, lets it go.
#pragma once

#include <filesystem>

#include "base/descriptor.h"

namespace cohort {

// A shared lock keeps others with a shared one not out.
enum class Lock { Exclusive, Shared };

// Makes the file where it is missing; the lock is held as long as the descriptor lives. None where that fails, and errno
// says why: EWOULDBLOCK where somebody has the lock. Any thread.
Descriptor tryLock(const std::filesystem::path& path, Lock lock = Lock::Exclusive);
// Whether somebody has the lock just now; false where there is no such file.
bool isLocked(const std::filesystem::path& path);

}  // namespace cohort
