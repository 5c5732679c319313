// A simulated rank: joins, loads, steps, saves. The order of its disk calls is that of
// train/checkpointing and checkpoint/writer; opening, committing, listing, reading and deleting
// tags is the product's own code.
#include <algorithm>

#include "checkpoint/reader.h"
#include "checkpoint/tag_list.h"
#include "core/status/error.h"
#include "tests/sim/cluster.h"
#include "train/settings/save_schedule.h"

namespace ds::sim {
namespace {

using std::chrono::milliseconds;

class Rank {
 public:
  Rank(Cluster& cluster, Process& process)
      : cluster_(cluster), self_(process), epoch_(process.epoch, process.claim) {}

  // The exit code.
  int live() {
    cluster_.sleep(self_, cluster_.random_time(milliseconds(5), milliseconds(60)));
    cluster_.wait_for_admission(self_);
    open();
    int64_t step = load();
    cluster_.loaded(self_, step);
    while (step < kSteps) {
      enter("train", step);
      cluster_.sleep(self_, cluster_.random_time(milliseconds(10), milliseconds(150)));
      const std::vector<Message> edge =
          cluster_.exchange(self_, {.error = "", .vote = {}, .stop = self_.asked_to_stop});
      if (!cluster_.is_finite(step)) throw ValidationError("the loss is not finite");
      ++step;
      if (!cluster_.skips(step)) value_ = next_value(value_, step - 1, self_.launcher->settings);
      if (self_.rank == 0) cluster_.report_step(self_, step);
      if (step < kSteps && std::ranges::any_of(edge, &Message::stop)) {
        save(step);
        return static_cast<int>(ExitCode::kRequeue);
      }
      if (saves_.wants(step)) cluster_.skips(step) ? saves_.put_off(step) : save_and_go_on(step);
    }
    save(step);
    return 0;
  }

 private:
  FileSystem& disk() { return *self_.disk; }

  void enter(const std::string& phase, int64_t step) {
    self_.progress.phase = phase;
    self_.progress.step = step;
  }

  void agree(const std::string& error) {
    for (const Message& message :
         cluster_.exchange(self_, {.error = error, .vote = {}, .stop = false})) {
      if (!message.error.empty()) throw IoError(message.error);
    }
  }

  void open() {
    enter("load", 0);
    std::string error;
    try {
      const bool skipped = cluster_.mutant(Mutant::kNoOpenEpoch);
      if (self_.rank == 0 && !skipped) open_epoch(disk(), kRoot, epoch_);
    } catch (const Error& failure) {
      error = failure.what();
    }
    agree(error);
  }

  // The newest tag that every rank can read, of those that rank 0 sees.
  int64_t load() {
    std::vector<CommittedTag> mine;
    begun_in_ = self_.epoch;
    if (self_.rank == 0) {
      found_ = resumable_tags(disk(), kRoot);
      mine = found_.tags;
      cluster_.opened(self_);
    }
    std::vector<CommittedTag> tags =
        cluster_
            .exchange(self_, {.error = "", .vote = {}, .stop = false, .tags = std::move(mine)})[0]
            .tags;
    if (cluster_.mutant(Mutant::kResumeOldest)) std::reverse(tags.begin(), tags.end());
    if (cluster_.mutant(Mutant::kTrustLatest)) {
      const std::string path = join_path(kRoot, "latest");
      const std::string tag = disk().exists(path) ? disk().read_text(path, 256) : "";
      std::erase_if(tags, [&](const CommittedTag& other) { return other.tag + "\n" != tag; });
    }
    for (const CommittedTag& tag : tags) {
      std::string error;
      try {
        restore(tag);
      } catch (const Error& failure) {
        error = failure.what();
      }
      try {
        agree(error);
        last_tag_ = tag.tag;
        if (self_.rank == 0) settle(tag);
        return tag.step + (cluster_.mutant(Mutant::kSkipAStep) ? 1 : 0);
      } catch (const IoError&) {
        continue;
      }
    }
    return 0;
  }

  void settle(const CommittedTag& tag) {
    cluster_.check_line(tag);
    const bool branches = found_.branches_at(tag);
    begun_in_ = branches ? self_.epoch : tag.begun_in;
    after_ = branches ? ancestors_after(tag, found_.tags) : tag.after;
    const bool is_late = tag.tag == found_.newest && !(tag.named && found_.latest == tag.tag);
    try {
      if (is_late) go_back(disk(), kRoot, tag.tag, found_.newest, epoch_);
    } catch (const Error&) {  // it may be late for longer
      return;
    }
  }

  void restore(const CommittedTag& tag) {
    const std::vector<float> values = read_tag(disk(), tag.tag);
    cluster_.check_content(tag, values);
    value_ = static_cast<int64_t>(values[0]);
  }

  FileVote write_pieces(const std::string& tag, int64_t step) {
    const std::string directory = temporary_directory(kRoot, tag, self_.epoch);
    const std::string path = join_path(directory, pieces_file_name(self_.rank));
    const int64_t begin = kElements * self_.rank / self_.size;
    const int64_t end = kElements * (self_.rank + 1) / self_.size;
    cluster_.computed(self_, step, value_);
    const std::vector<float> values(static_cast<size_t>(end - begin), static_cast<float>(value_));
    const auto data = std::as_bytes(std::span(values));
    FileIndex index{.tag = tag,
                    .epoch = self_.epoch,
                    .rank = self_.rank,
                    .data_bytes = static_cast<int64_t>(data.size()),
                    .pieces = {},
                    .states = {},
                    .blocks = {digest_of(data)}};
    index.pieces.push_back({"w/weight", DType::kF32, {kElements}, Region::flat(begin, end), 0});
    std::string text = to_text(index);
    const size_t used = data.size() + text.size() + static_cast<size_t>(kTrailerBytes);
    text.append(static_cast<size_t>(kUncachedAlignment) - used % kUncachedAlignment, ' ');
    const Trailer trailer{index.data_bytes, static_cast<int64_t>(text.size()),
                          digest_of(std::as_bytes(std::span(text)))};
    std::vector<std::byte> file(data.begin(), data.end());
    const auto add = [&](std::span<const std::byte> bytes) {
      file.insert(file.end(), bytes.begin(), bytes.end());
    };
    add(std::as_bytes(std::span(text)));
    add(to_bytes(trailer));
    disk().make_directories(kRoot);
    disk().make_directories(directory);
    if (disk().exists(path)) disk().remove(path);
    {
      const std::unique_ptr<File> out = disk().create(path);
      out->write(0, file);
      out->sync();
    }
    disk().sync_directory(directory);
    return {pieces_file_name(self_.rank), self_.rank, self_.epoch,
            static_cast<int64_t>(file.size()), trailer.index_digest};
  }

  void save_and_go_on(int64_t step) {
    try {
      save(step);
      saves_.saved();
    } catch (const IoError&) {
      if (!saves_.failed(step, 1.0)) throw;
    }
  }

  void save(int64_t step) {
    enter("save", step);
    const std::string tag = fmt::format("global_step{}", step);
    if (tag == last_tag_) return;
    Message mine;
    mine.bad = !cluster_.is_finite(step) && step % self_.size == self_.rank;
    try {
      if (cluster_.mutant(Mutant::kDeleteFirst) && self_.rank == 0) {
        retain_tags(disk(), kRoot, 1, epoch_, step);
        for (const CommittedTag& old : list_tags(disk(), kRoot).tags) {
          disk().remove_tree(join_path(kRoot, old.tag));
        }
      }
      mine.vote = write_pieces(tag, step);
    } catch (const Error& failure) {
      mine.error = failure.what();
    }
    const std::vector<Message> all = cluster_.exchange(self_, mine);
    if (std::ranges::any_of(all, &Message::bad)) {
      if (self_.rank == 0) discard(tag);
      throw ValidationError("the weights are not finite");
    }
    std::string error;
    std::vector<FileVote> votes;
    for (const Message& message : all) {
      if (message.error.empty()) {
        votes.push_back(message.vote);
      } else if (!cluster_.mutant(Mutant::kIgnoreVote)) {
        error = message.error;
      }
    }
    if (self_.rank == 0) {
      if (error.empty()) error = commit(tag, step, votes);
      if (!error.empty()) discard(tag);
    }
    agree(error);
    last_tag_ = tag;
  }

  std::string commit(const std::string& tag, int64_t step, const std::vector<FileVote>& votes) {
    try {
      if (cluster_.mutant(Mutant::kCommitFirst)) cluster_.committed(self_, step);
      commit_tag(disk(), {.root = kRoot,
                          .tag = tag,
                          .epoch = epoch_,
                          .step = step,
                          .votes = votes,
                          .begun_in = begun_in_,
                          .after = after_,
                          .skipped = cluster_.skips(step)});
      cluster_.committed(self_, step);
    } catch (const Error& failure) {
      return failure.what();
    }
    try {
      write_latest(disk(), kRoot, tag, epoch_);
      retain_tags(disk(), kRoot, 2, epoch_, step);
      if (cluster_.mutant(Mutant::kDeleteNewest)) disk().remove_tree(join_path(kRoot, tag));
    } catch (const Error&) {  // the tag is committed; old ones may stay
      return "";
    }
    return "";
  }

  void discard(const std::string& tag) {
    try {
      discard_tag(disk(), kRoot, tag, self_.epoch);
    } catch (const Error&) {  // the next epoch tidies up
      return;
    }
  }

  Cluster& cluster_;
  Process& self_;
  const EpochClaim epoch_;
  SaveSchedule saves_{2, kSteps};
  int64_t value_ = 7;
  Resumable found_;       // of rank 0
  int64_t begun_in_ = 0;  // the line that is trained
  std::vector<Ancestor> after_;
  std::string last_tag_;
};

}  // namespace

int64_t next_value(int64_t value, int64_t step, int settings) {
  return (value * 31 + step + settings * 1009) % 100003;
}

std::vector<float> read_tag(FileSystem& files, const std::string& tag) {
  CheckpointReader reader = CheckpointReader::open(files, kRoot, tag);
  std::vector<float> values(kElements);
  Tensor into = Tensor::borrow(values.data(), {kElements}, DType::kF32);
  reader.get("w/weight", Region::flat(0, kElements), into);
  return values;
}

CommittedTag newest_readable(FileSystem& files) {
  for (const CommittedTag& tag : list_tags(files, kRoot).tags) {
    try {
      read_tag(files, tag.tag);
      return tag;
    } catch (const Error&) {
      continue;
    }
  }
  return {};
}

void rank_main(Cluster& cluster, Process& process) {
  try {
    const int code = Rank(cluster, process).live();
    cluster.report_final(process, code, Blame::kOwn, "");
  } catch (const PeerIoError& error) {
    cluster.report_final(process, static_cast<int>(error.exit_code()), Blame::kPeer, error.what());
  } catch (const CommError& error) {
    cluster.report_final(process, 1, Blame::kPeer, error.what());
  } catch (const Error& error) {
    cluster.report_final(process, static_cast<int>(error.exit_code()), Blame::kOwn, error.what());
  }
}

}  // namespace ds::sim
