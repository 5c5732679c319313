#include "core/status/failpoint.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/status/error.h"
#include "core/status/io_error.h"

namespace ds {

#ifndef DS_FAILPOINTS

std::span<const std::string_view> failpoint_names() { return {}; }

void arm_failpoints(std::string_view text, const FailpointScope&) {
  if (!text.empty()) {
    throw Unsupported("DSL_FAILPOINTS is set, but this build has no failpoints (DS_FAILPOINTS)");
  }
}

#else

namespace {

// tests/style/failpoints.py holds this list to the places in the source.
constexpr std::array<std::string_view, 177> kNames{"ckpt.after_fsync",
                                                   "ckpt.agreed",
                                                   "ckpt.before_agreement",
                                                   "ckpt.before_create",
                                                   "ckpt.before_finish",
                                                   "ckpt.before_open_epoch",
                                                   "ckpt.committed",
                                                   "ckpt.created",
                                                   "ckpt.directory_synced",
                                                   "ckpt.epoch_agreed",
                                                   "ckpt.epoch_opened",
                                                   "ckpt.index_written",
                                                   "ckpt.piece_put",
                                                   "ckpt.pieces_written",
                                                   "ckpt.tidied",
                                                   "ckpt.votes_exchanged",
                                                   "commit.before_manifest",
                                                   "commit.before_rename",
                                                   "commit.fence_checked",
                                                   "commit.file_checked",
                                                   "commit.manifest_written",
                                                   "commit.renamed",
                                                   "commit.second_fence_checked",
                                                   "commit.synced",
                                                   "commit.unpublished",
                                                   "commit.votes_checked",
                                                   "control.admitted",
                                                   "control.before_commit_report",
                                                   "control.command",
                                                   "control.commit_queued",
                                                   "control.final_queued",
                                                   "control.heartbeat",
                                                   "control.step_queued",
                                                   "discard.temporary_removed",
                                                   "engine.backward_done",
                                                   "engine.batch_loaded",
                                                   "engine.before_norm",
                                                   "engine.before_publish",
                                                   "engine.before_sums",
                                                   "engine.forward_done",
                                                   "engine.published",
                                                   "engine.reduced",
                                                   "engine.shards_updated",
                                                   "engine.sums_reduced",
                                                   "epoch.before_record",
                                                   "epoch.before_sync",
                                                   "epoch.leftover_removed",
                                                   "epoch.prepared_kept",
                                                   "epoch.recorded",
                                                   "export.before_finish",
                                                   "export.opened",
                                                   "export.spread_written",
                                                   "export.tensor",
                                                   "export.weights_written",
                                                   "export.written",
                                                   "file.before_fsync",
                                                   "file.before_write",
                                                   "generate.asked",
                                                   "generate.begin",
                                                   "generate.boundary_received",
                                                   "generate.loaded",
                                                   "generate.token_sent",
                                                   "latest.before_write",
                                                   "latest.fence_checked",
                                                   "latest.made",
                                                   "latest.marked",
                                                   "latest.newest_marked",
                                                   "latest.written",
                                                   "load.agreed",
                                                   "load.before_restore",
                                                   "load.piece_read",
                                                   "load.published",
                                                   "load.restored",
                                                   "local.all_prepared",
                                                   "local.all_published",
                                                   "local.before_look",
                                                   "local.before_open_epoch",
                                                   "local.displaced",
                                                   "local.marked",
                                                   "local.prepared",
                                                   "local.published",
                                                   "local.put_in_place",
                                                   "local.settled",
                                                   "local.unpublished",
                                                   "local.verified",
                                                   "memory.before_finish",
                                                   "memory.before_restore",
                                                   "memory.before_save",
                                                   "memory.chunk_taken",
                                                   "memory.committed",
                                                   "memory.copy_sent",
                                                   "memory.copy_taken",
                                                   "memory.restored",
                                                   "memory.saved",
                                                   "memory.settled",
                                                   "memory.swept",
                                                   "memory.votes_exchanged",
                                                   "memory.written",
                                                   "offload.gradient_handed_over",
                                                   "offload.gradient_loaded",
                                                   "offload.gradient_stored",
                                                   "offload.part_given_up",
                                                   "offload.part_kept",
                                                   "offload.part_saved",
                                                   "offload.part_undone",
                                                   "offload.part_updated",
                                                   "offload.part_updated_ahead",
                                                   "offload.sums_added",
                                                   "offload.weights_stored",
                                                   "pipe.activation_received",
                                                   "pipe.activation_sent",
                                                   "pipe.gradient_received",
                                                   "pipe.gradient_sent",
                                                   "pipe.tied_summed",
                                                   "retain.aside",
                                                   "retain.before_aside",
                                                   "retain.removed",
                                                   "ring.gradients_passed",
                                                   "ring.keys_passed",
                                                   "sequence.traded",
                                                   "session.after_final",
                                                   "session.before_final",
                                                   "session.before_join",
                                                   "session.begin",
                                                   "session.connected",
                                                   "session.joined",
                                                   "sets.chunk_sent",
                                                   "sets.files_brought",
                                                   "sets.tails_brought",
                                                   "swap.created",
                                                   "swap.data_on_its_way",
                                                   "swap.folder_made",
                                                   "swap.got",
                                                   "swap.header_written",
                                                   "swap.put_begun",
                                                   "swap.put_done",
                                                   "swap.put_on_its_way",
                                                   "swap.replaced",
                                                   "swap.reserved",
                                                   "tensor.gradient_summed",
                                                   "tensor.parts_gathered",
                                                   "tensor.rows_gathered",
                                                   "tensor.rows_summed",
                                                   "tensor.softmax_gathered",
                                                   "tensor.summed",
                                                   "text.created",
                                                   "text.renamed",
                                                   "text.synced",
                                                   "text.written",
                                                   "train.before_comm",
                                                   "train.before_export",
                                                   "train.before_load",
                                                   "train.before_measured",
                                                   "train.before_save",
                                                   "train.begin",
                                                   "train.best_found",
                                                   "train.comm_open",
                                                   "train.engine_built",
                                                   "train.evaluate",
                                                   "train.exported",
                                                   "train.loaded",
                                                   "train.memory_open",
                                                   "train.planned",
                                                   "train.referenced",
                                                   "train.saved",
                                                   "train.step_begin",
                                                   "train.step_done",
                                                   "train.step_reported",
                                                   "train.text_sample",
                                                   "zenflow.columns_chosen",
                                                   "zenflow.important_updated",
                                                   "zenflow.masters_shown",
                                                   "zenflow.rest_added",
                                                   "zenflow.rest_taken",
                                                   "zenflow.rest_updated",
                                                   "zenflow.rest_updated_late",
                                                   "zenflow.updated"};

struct Term {
  enum class Action { kOff, kKill, kStop, kExit, kSleep, kError, kChance };
  Action action = Action::kOff;
  int64_t left = 1;  // times it still acts; -1: for ever
  int64_t value = 0;
  double probability = 0;
  std::mt19937_64 draws{};
  std::string kind{};  // of error()
};

struct Chain {
  std::vector<Term> terms;
  size_t now = 0;
};

struct Armed {
  std::mutex mutex;  // guards the chains
  std::map<std::string, Chain, std::less<>> chains;
};

// The one global of the product: a place in the middle of everything cannot be handed an argument.
std::atomic<Armed*> armed{nullptr};

[[noreturn]] void bad(std::string_view text, std::string_view why) {
  throw UsageError(fmt::format("DSL_FAILPOINTS: '{}': {}", text, why));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(by, at), text.size());
    parts.push_back(trimmed(text.substr(at, end - at)));
    at = end + by.size();
  }
  return parts;
}

template <class Number>
Number number(std::string_view text, std::string_view whole) {
  Number value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    bad(whole, fmt::format("'{}' is no number", text));
  }
  return value;
}

void set_action(Term& term, std::string_view text) {
  const size_t open = text.find('(');
  const std::string_view name = text.substr(0, open);
  std::string_view argument;
  if (open != std::string_view::npos) {
    if (text.back() != ')') bad(text, "expected ')' at the end");
    argument = text.substr(open + 1, text.size() - open - 2);
  }
  const std::map<std::string_view, Term::Action> actions{
      {"off", Term::Action::kOff},     {"kill", Term::Action::kKill},
      {"stop", Term::Action::kStop},   {"exit", Term::Action::kExit},
      {"sleep", Term::Action::kSleep}, {"error", Term::Action::kError},
      {"p", Term::Action::kChance}};
  const auto found = actions.find(name);
  if (found == actions.end()) bad(text, "expected off, kill, stop, exit, sleep, error or p");
  term.action = found->second;
  if (term.action == Term::Action::kExit || term.action == Term::Action::kSleep) {
    term.value = number<int64_t>(argument, text);
  } else if (term.action == Term::Action::kError) {
    term.kind = argument;
    if (argument != "enospc" && argument != "eio" && argument != "comm") {
      bad(text, "expected enospc, eio or comm");
    }
  } else if (term.action == Term::Action::kChance) {
    const auto parts = split(argument, ",");
    if (parts.size() != 2) bad(text, "expected p(probability,seed)");
    term.probability = number<double>(parts[0], text);
    term.draws.seed(number<uint64_t>(parts[1], text));
  }
}

Chain parse_chain(std::string_view text) {
  Chain chain;
  const std::vector<std::string_view> terms = split(text, "->");
  for (size_t i = 0; i < terms.size(); ++i) {
    Term& term = chain.terms.emplace_back();
    std::string_view action = terms[i];
    const size_t star = action.find('*');
    term.left = i + 1 == terms.size() ? -1 : 1;
    if (star != std::string_view::npos) {
      term.left = number<int64_t>(action.substr(0, star), action);
      action.remove_prefix(star + 1);
    }
    set_action(term, trimmed(action));
  }
  return chain;
}

// The term that acts at this hit, as a copy.
Term next_term(Chain& chain) {
  while (chain.now < chain.terms.size()) {
    Term& term = chain.terms[chain.now];
    if (term.action == Term::Action::kChance) {
      std::uniform_real_distribution<double> draw(0, 1);
      if (draw(term.draws) >= term.probability) return {};
      if (++chain.now == chain.terms.size()) --chain.now;
      if (&chain.terms[chain.now] == &term) return {};
      continue;
    }
    if (term.left == 0) {
      ++chain.now;
      continue;
    }
    if (term.left > 0) --term.left;
    return term;
  }
  return {};
}

void act(const Term& term, std::string_view name) {
  switch (term.action) {
    case Term::Action::kKill:
      kill(getpid(), SIGKILL);
      return;
    case Term::Action::kStop:
      kill(getpid(), SIGSTOP);
      return;
    case Term::Action::kExit:
      _exit(static_cast<int>(term.value));
    case Term::Action::kSleep:
      std::this_thread::sleep_for(std::chrono::milliseconds(term.value));
      return;
    case Term::Action::kError:
      if (term.kind == "comm") throw CommError(fmt::format("failpoint {}", name));
      throw_io_error("failpoint", name, term.kind == "enospc" ? ENOSPC : EIO);
    case Term::Action::kOff:
    case Term::Action::kChance:
      return;
  }
}

}  // namespace

std::span<const std::string_view> failpoint_names() { return kNames; }

void arm_failpoints(std::string_view text, const FailpointScope& scope) {
  auto places = std::make_unique<Armed>();
  for (const std::string_view entry : split(text, ";")) {
    if (entry.empty()) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) bad(entry, "expected name=action");
    const auto parts = split(entry.substr(0, equals), "@");
    if (std::ranges::find(kNames, parts[0]) == kNames.end()) {
      bad(entry, "no such failpoint; rankd --list-failpoints shows them");
    }
    bool ours = true;
    for (size_t i = 1; i < parts.size(); ++i) {
      if (parts[i].starts_with("rank")) {
        ours = ours && number<int>(parts[i].substr(4), entry) == scope.rank;
      } else if (parts[i].starts_with("epoch")) {
        ours = ours && number<int64_t>(parts[i].substr(5), entry) == scope.epoch;
      } else {
        bad(entry, "expected @rankN or @epochN");
      }
    }
    Chain chain = parse_chain(entry.substr(equals + 1));
    if (ours) places->chains.insert_or_assign(std::string(parts[0]), std::move(chain));
  }
  if (!places->chains.empty()) {
    delete armed.exchange(places.release());
  }
}

void hit_failpoint(std::string_view name) {
  Armed* const places = armed.load(std::memory_order_acquire);
  if (places == nullptr) return;
  Term term;
  {
    const std::scoped_lock lock(places->mutex);
    const auto found = places->chains.find(name);
    if (found == places->chains.end()) return;
    term = next_term(found->second);
  }
  act(term, name);
}

#endif

}  // namespace ds
