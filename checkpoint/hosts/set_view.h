// A set that hosts keep, seen as the directory of a tag, so that CheckpointReader reads it like one
// that lies in one place. Its files come from this host or from others: of those, first the tail
// (index and trailer), which is all that a reader wants to know what is where, then the whole.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/block_file.h"
#include "checkpoint/format.h"
#include "checkpoint/partial_file_system.h"

namespace ds {

// Reads the trailer of a pieces file. Throws ValidationError if the file is none.
Trailer read_trailer(const File& file);
int64_t tail_of(const File& file);  // where the page begins in which its index begins

// Confined to one thread, but for reads, which may be several at a time.
class SetView final : public PartialFileSystem {
 public:
  explicit SetView(std::string manifest) : manifest_(std::move(manifest)) {}

  using OpenKept = std::function<std::unique_ptr<File>(Caching caching)>;
  // A file that this host keeps.
  void add(const FileVote& vote, OpenKept open);
  // A file of which only the bytes from `tail` on are there; returns the room for them, which the
  // caller fills. Reading what is not there is a ValidationError.
  std::span<std::byte> add_tail(const FileVote& vote, int64_t tail);
  // Makes room for all of such a file, which the caller fills.
  std::span<std::byte> make_whole(const FileVote& vote);

  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Caching caching) override;
  bool exists(const std::string& path) const override;

  struct Received {
    int64_t bytes = 0;  // of the whole file
    int64_t begin = 0;  // the first that is there
    std::vector<std::byte> content;
  };

 private:
  const std::string manifest_;
  std::map<std::string, OpenKept> files_;
  std::map<std::string, std::shared_ptr<Received>> received_;
};

}  // namespace ds
