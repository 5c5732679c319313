// The tags in the root of one host where each host keeps the files of its own ranks
// (checkpoint.use_node_local_storage). Each host has the manifest, which names the files of all; a
// tag is whole if the hosts together have every file under one manifest
// (checkpoint/hosts/memory_sets.h), whatever the directory is called on each of them: an epoch may
// end while some hosts have named a tag and others not yet.
//
// Refuses to know what other hosts keep; who does tells it what is whole.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/format.h"
#include "checkpoint/hosts/kept_files.h"
#include "checkpoint/tag_list.h"

namespace ds {

// Confined to one thread. Only one rank of a host may call what changes files, and the others
// look() after.
class LocalTags final : public KeptFiles {
 public:
  LocalTags(FileSystem& file_system, std::string root)
      : file_system_(file_system), root_(std::move(root)) {}

  struct Tag {
    std::string directory;  // in the root; "<tag>", "<tag>.ready.<epoch>" or "<tag>.old.<epoch>"
    // kReady: no host may have told anybody that it has the tag.
    enum class Stage { kReady, kPublished } stage = Stage::kPublished;
    SetIdentity set;
    Manifest manifest;
    std::string text;  // of the manifest
  };
  // Reads what is there now; the rest speaks of what was there then.
  void look();
  const std::vector<Tag>& tags() const { return tags_; }
  const std::vector<RejectedTag>& rejected() const { return rejected_; }  // traces that are no tags

  CommittedTag committed(const Tag& tag) const;  // as it lies on this host

  std::vector<KeptFile> files() const override;
  std::string manifest(const KeptFile& file) const override;
  using KeptFiles::open;
  std::unique_ptr<File> open(const KeptFile& file, Caching caching) const override;

  // Gives whole tags their names and removes what else an interrupted commit left behind. Of two of
  // one name, `loaded` stays (null: none), else the newer. Other tags stay, whole or not.
  void settle(std::span<const WholeSet> whole, const WholeSet* loaded, int64_t epoch);
  // Reads the tag's files of those ranks through. ValidationError for the first that does not hold.
  void verify(const std::string& tag, std::span<const int> ranks);
  // Deletes the tags of that step and those before but for `wanted`.
  void remove_others(std::span<const std::string> wanted, int64_t step, const EpochClaim& epoch);

 private:
  const Tag* find(const SetIdentity& set) const;
  void add(const std::string& directory, Tag::Stage stage);
  void put_in_place(const Tag& tag, int64_t epoch);

  FileSystem& file_system_;
  const std::string root_;
  std::vector<Tag> tags_;
  std::vector<RejectedTag> rejected_;
};

}  // namespace ds
