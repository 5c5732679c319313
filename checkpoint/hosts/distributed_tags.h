// Tags of which every host keeps the files of its own ranks on its own disk, under the same path
// (checkpoint.use_node_local_storage), so that no file system has to be shared. Hosts that see each
// other's files count as one; with a single one a tag is what it is elsewhere, all in one place.
//
// A commit has two halves, each agreed on by all ranks: first every host prepares the tag, all of
// whose files and manifest are then durable; only then do they name it. So a tag that any host has
// named is whole over the hosts, and if it is not found so later, a disk was lost.
//
// Collective: all ranks of the exchange call alike. Refuses to know what is in the files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/hosts/distributed_sets.h"
#include "checkpoint/hosts/local_tags.h"

namespace ds {

class DistributedTags {
 public:
  // The caller's among the ranks that share the tags; rendezvous and claim are the epoch's own
  // words.
  struct Place {
    int rank = 0;
    int local_rank = 0;
    int64_t epoch = 0;
    std::string claim;
    std::string shm_name;
  };
  // Opens the epoch in the root of every host. IoError on every rank if one of them cannot.
  DistributedTags(FileSystem& files, std::string root, const Place& place, HostExchange& exchange);

  // What all hosts hold together that training may go on from. Rejected are also tags that were
  // committed and are not whole any more. What `latest` names, rank 0's host says.
  Resumable find(const ResumeWish& wish);
  // All ranks read of one of those found, or of the last one committed. IoError on every rank if
  // one of them cannot.
  void read(const std::string& tag, int64_t epoch, const DistributedSets::Use& use);
  std::string place_of(const std::string& tag) const { return join_path(root_, tag); }
  // Training goes on from that tag (null: from elsewhere): clears up after the epochs before.
  void settle(const CommittedTag* from);
  // As go_back() of checkpoint/commit.h, on the hosts that have both. IoError on every rank if one
  // of them cannot.
  void go_back(const std::string& tag, const std::string& newest);

  // Each rank has written its file under the tag, and voted; `failure`: why one of them could not,
  // or nothing. When it returns the tag is committed and durable on all hosts, and all but those to
  // keep are deleted. IoError on every rank if it is not committed; then the
  // tags before it are as they were.
  void commit(const CommittedTag& tag, const std::string& failure, std::vector<FileVote> votes,
              const TagsToKeep& keep);
  // Takes back what was written of a tag that will not be committed.
  void withdraw(const std::string& tag);

 private:
  std::string if_host_leader(const std::function<void()>& part) const;
  void agree(const std::string& what, const std::string& error);
  std::vector<HostFile> look();
  TagList list(const std::vector<HostFile>& kept);
  void add_tags(const std::vector<WholeSet>& whole, TagList& list);
  std::vector<RejectedTag> traces_here(const std::vector<HostFile>& kept) const;
  std::string why_broken(const SetIdentity& set, const std::vector<HostFile>& kept) const;
  std::string hosts_in_words() const;
  CommitRequest request_of(const CommittedTag& tag, std::vector<FileVote> votes) const;
  void commit_everywhere(const CommitRequest& request);
  void note_whole(const CommittedTag& tag);
  void tidy(const CommittedTag& tag, const TagsToKeep& keep);

  FileSystem& files_;
  const std::string root_;
  const EpochClaim epoch_;
  HostExchange& exchange_;
  LocalTags local_;
  DistributedSets sets_;
  std::vector<std::string> names_;   // of the host of each rank
  std::vector<int> here_;            // the ranks of this host
  std::vector<WholeSet> all_whole_;  // when found
  std::vector<CommittedTag> whole_;  // now, newest first
};

}  // namespace ds
