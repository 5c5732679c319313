// SwapDirectory: where the ranks of a job on this host have their swap files, a folder of its own
// below nvme_path, so that jobs share a disk. Swap files outlive their process only where it was
// killed: whoever starts next below the same path removes what nobody has locked any more.
#pragma once

#include <string>

#include "core/files/file.h"
#include "offload/swap_format.h"

namespace ds {

class SwapDirectory {
 public:
  // Makes "<root>/dslaunch-state-<job>" with access for its owner alone (0700), after what dead
  // processes left below the root is gone. ConfigError where the root is no folder; IoError.
  SwapDirectory(const std::string& root, const SwapOwner& owner);
  ~SwapDirectory();  // removes it, unless other ranks still have files there
  SwapDirectory(const SwapDirectory&) = delete;  // owns the folder together with the other ranks
  SwapDirectory& operator=(const SwapDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  Fd lock_;  // shared by the ranks that are there: nobody removes the folder of who lives
};

// Removes swap files of this host below the root that no process has locked, and the folders that
// are empty then; logs each file. What is no swap file stays.
void remove_stale_swap_files(const std::string& root);

}  // namespace ds
