#include "cli/other_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ds {
namespace {

using Row = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kConfiguration =
    "the configuration is the first word, without an option: `dslaunch ds_config.json`";
constexpr std::string_view kRanks =
    "the ranks of this machine are --num-ranks: `dslaunch train.json --num-ranks 4`; those of each "
    "host of a --hostfile are --num-gpus";
constexpr std::string_view kHosts =
    "hosts are named in a file, and dslaunch is started on one of them: `dslaunch --hostfile hosts "
    "--num-nodes 2 train.json`";
constexpr std::string_view kRendezvous =
    "ranks find each other through dslaunch, which is started once and starts them: `dslaunch "
    "--hostfile hosts train.json`";
constexpr std::string_view kNoScript =
    "no script is started: model, data and optimizer stand in the configuration: `dslaunch "
    "train.json`; `dslaunch init` writes one";

// What torchrun, deepspeed, accelerate, the Trainer of Hugging Face and Megatron-LM have.
constexpr std::array kOptions{
    Row{"deepspeed",
        "every configuration is DeepSpeed's, and is the first word: `dslaunch ds_config.json`"},
    Row{"deepspeed-config", kConfiguration},
    Row{"deepspeed-config-file", kConfiguration},
    Row{"ds-config", kConfiguration},
    Row{"config", kConfiguration},
    Row{"config-file", kConfiguration},
    Row{"nproc-per-node", kRanks},
    Row{"nproc", kRanks},
    Row{"num-processes", kRanks},
    Row{"world-size", kRanks},
    Row{"nnodes", kHosts},
    Row{"num-machines", kHosts},
    Row{"node-rank", kHosts},
    Row{"machine-rank", kHosts},
    Row{"main-process-ip",
        "it is --master-addr: `dslaunch --hostfile hosts --master-addr 10.0.0.1 "
        "train.json`"},
    Row{"main-process-port",
        "it is --master-port: `dslaunch --hostfile hosts --master-port 29500 "
        "train.json`"},
    Row{"rdzv-backend", kRendezvous},
    Row{"rdzv-endpoint", kRendezvous},
    Row{"rdzv-id", kRendezvous},
    Row{"rdzv-conf", kRendezvous},
    Row{"standalone", kRendezvous},
    Row{"no-ssh", kRendezvous},
    Row{"module", kNoScript},
    Row{"no-python", kNoScript},
    Row{"output-prefix",
        "it is --output: `dslaunch tokenize --tokenizer gpt2/ --file corpus.jsonl --output ids`"},
    Row{"append-eod",
        "`dslaunch tokenize --output` ends each document with the tokenizer's eos_token; "
        "--separator gives another text"},
    Row{"json-keys", "it is --field: `dslaunch tokenize --file corpus.jsonl --field body ...`"},
    Row{"elastic-training",
        "the world changes within --nodes: `dslaunch --hostfile hosts --nodes "
        "2:8 train.json`"},
    Row{"min-elastic-nodes", "it is --nodes MIN:MAX: `dslaunch --nodes 2:8 train.json`"},
    Row{"max-elastic-nodes", "it is --nodes MIN:MAX: `dslaunch --nodes 2:8 train.json`"},
    Row{"mixed-precision", "it is a key: `dslaunch train.json bf16.enabled=true`"},
    Row{"bf16", "it is a key: `dslaunch train.json bf16.enabled=true`"},
    Row{"fp16", "it is a key: `dslaunch train.json fp16.enabled=true`"},
    Row{"zero-stage", "it is a key: `dslaunch train.json zero_optimization.stage=3`"},
    Row{"gradient-accumulation-steps",
        "it is a key: `dslaunch train.json gradient_accumulation_steps=4`"},
    Row{"per-device-train-batch-size",
        "it is a key: `dslaunch train.json train_micro_batch_size_per_gpu=8`"},
    Row{"learning-rate", "it is a key: `dslaunch train.json optimizer.params.lr=3e-4`"},
    Row{"max-steps", "it is a key: `dslaunch train.json train.steps=1000`"},
    Row{"num-train-epochs", "it is a key: `dslaunch train.json train.epochs=3`"},
    Row{"save-steps", "it is a key: `dslaunch train.json train.save_every=100`"},
    Row{"eval-steps", "it is a key: `dslaunch train.json train.eval_every=100`"},
    Row{"logging-steps", "it is a key: `dslaunch train.json train.log_every=10`"},
    Row{"model-name-or-path",
        "it is a key, a folder of this machine: `dslaunch train.json "
        "model.folder=models/gpt2`"},
    Row{"output-dir", "it is --run-dir: `dslaunch train.json --run-dir runs/mine`"},
    Row{"resume-from-checkpoint",
        "it is --resume: `dslaunch train.json --run-dir runs/mine "
        "--resume auto`"},
};

constexpr std::array<std::string_view, 9> kVerbs = {
    "train", "launch", "start", "fit", "finetune", "torchrun", "deepspeed", "accelerate", "python"};

}  // namespace

std::optional<std::string> instead_of_option(std::string_view name) {
  const auto* row = std::ranges::find(kOptions, name, &Row::first);
  return row == kOptions.end() ? std::nullopt : std::optional<std::string>(row->second);
}

std::optional<std::string> instead_of_first_word(std::string_view word, std::string_view next) {
  if (word.ends_with(".py")) {
    return fmt::format("{} is a Python script; {}", word, kNoScript);
  }
  if (std::ranges::find(kVerbs, word) == kVerbs.end()) return std::nullopt;
  const bool is_file = !next.empty() && !next.starts_with('-') && next.find('=') == next.npos &&
                       !next.ends_with(".py");
  return fmt::format(
      "'{}' is no verb here: a job is started by its configuration alone: `dslaunch {}`", word,
      is_file ? next : "train.json");
}

}  // namespace ds
