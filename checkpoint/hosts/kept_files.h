// What one host keeps of sets (checkpoint/hosts/memory_sets.h), wherever: in its memory
// (checkpoint/hosts/checkpoint_memory.h) or on its disk (checkpoint/hosts/local_tags.h). Refuses to
// know what other hosts keep.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/hosts/memory_sets.h"
#include "core/files/file.h"

namespace ds {

class KeptFiles {
 public:
  virtual ~KeptFiles() = default;

  // In a fixed order. Data are not read, and may not hold.
  virtual std::vector<KeptFile> files() const = 0;
  // Returns the manifest of the file's set, as text. Throws ValidationError if it is not the one
  // that the file's identity speaks of.
  virtual std::string manifest(const KeptFile& file) const = 0;
  virtual std::unique_ptr<File> open(const KeptFile& file, Caching caching) const = 0;
  std::unique_ptr<File> open(const KeptFile& file) const { return open(file, Caching::kCached); }
};

}  // namespace ds
