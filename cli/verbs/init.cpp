#include "cli/verbs/init.h"

#include "cli/verb_app.h"

namespace ds {

void describe_init(VerbApp& app, InitOptions& options) {
  app.add_option("--data", options.data,
                 "What to train on: files, folders, patterns; without it, init asks")
      ->type_name("PATH...");
  app.add_option("--model", options.model,
                 "tiny, small, medium or large (0.4, 5, 25, 85 million parameters without the "
                 "vocabulary), or a "
                 "Hugging Face folder to go on from (default: small)")
      ->type_name("NAME");
  app.add_option("--finetune", options.finetune,
                 "A Hugging Face folder that is to learn from conversations, prompts or token ids")
      ->type_name("FOLDER");
  app.add_flag("--lora", options.lora,
               "With --finetune: train low-rank adapters beside the folder's weights, not these");
  app.add_option(
         "--tokenizer", options.tokenizer,
         "byte, a tokenizer's file or a folder with one (default: the model folder's, else byte)")
      ->type_name("NAME");
  app.add_option("--sequence-length", options.sequence_length, "Tokens per sample")->type_name("N");
  app.add_option("--batch", options.batch, "Samples per step, over all ranks")->type_name("N");
  app.add_option("--precision", options.precision, "fp32 or bf16 (default: what is faster here)");
  app.add_option("--zero-stage", options.zero_stage, "0 to 3 (default: 2)")->type_name("N");
  app.add_option("--steps", options.steps, "Optimizer steps (default: 200)")->type_name("N");
  app.add_option("-o,--output", options.output, "The file to write")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag("--force", options.force, "Overwrite it");
  app.add_flag("--json", options.json, "Say what was chosen as one JSON object");
  app.footer(
      "Examples:\n"
      "  dslaunch init\n"
      "  dslaunch init --data corpus.txt --steps 1000\n"
      "  dslaunch init --data 'shards/*.jsonl' --model path/to/huggingface/folder --output "
      "tune.json\n"
      "  dslaunch init --data chat.jsonl --finetune path/to/huggingface/folder --lora\n"
      "\n"
      "On a terminal and without --data it asks for what no option says. The file has comments, "
      "and trains at once.");
}

}  // namespace ds
