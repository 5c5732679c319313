// What a run directory says of earlier launches in it, before anything is started: that there was
// progress must not be forgotten because its checkpoints are gone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ds {

struct PastProgress {
  // This is the step of the newest checkpoint that was committed; 0: none, as far as is known.
  int64_t committed_step = 0;
  std::string committed_by;  // who says so
  // As far as an earlier launch came that saved nothing; 0: there is none.
  int64_t unsaved_step = 0;
  int64_t metrics_step = 0;  // the last in metrics.jsonl; 0: none
  std::string metrics_line;  // that says it
  // The generation in which a launch began anew (--resume never), where no checkpoint has been
  // committed since: those of older generations are forgotten. 0: none did.
  int64_t begun_anew = 0;
  // This tells of steps that may or may not have been saved; empty: there are none.
  std::string trace;
};

// committed.json tells of every launch since it was introduced; of older ones, metrics and report
// do.
PastProgress past_progress(const std::filesystem::path& run_directory);

// The text of committed.json where a tag is committed, and where none is yet.
std::string committed_text(const std::string& tag, int64_t step, int64_t epoch);
std::string nothing_committed_text(int64_t begun_anew);

}  // namespace ds
