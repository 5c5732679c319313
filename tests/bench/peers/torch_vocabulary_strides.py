"""What the stride of a vocabulary's rows costs the three products of a language model's head, in bf16 by PyTorch: the
logits, the gradient of their input and that of the table. Rows of 50257 elements begin at odd places in memory; padded
to 50304 they do not, with the table as it is or padded as well, or with each product cut in two, of which the first has
a multiple of 8 or 64 elements of the vocabulary. Prints one JSON object of milliseconds.
"""
import argparse
import json

import torch

ROWS, WIDTH, WORDS, PADDED = 8192, 768, 50257, 50304


def milliseconds(device, product, rounds):
    for _ in range(3):
        product()
    if torch.device(device).type != "cuda":
        return None
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(rounds):
        product()
    end.record()
    end.synchronize()
    return round(begin.elapsed_time(end) / rounds, 4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_default_device(args.device)
    torch.set_default_dtype(torch.bfloat16)
    x = torch.randn(args.rows, WIDTH)
    figures = {"rows": args.rows, "products": ["logits", "input's gradient", "table's gradient"]}
    for name, words, stride in (("unpadded", WORDS, WORDS), ("padded_rows", WORDS, PADDED),
                                ("padded_rows_and_table", PADDED, PADDED)):
        table = torch.randn(words, WIDTH)
        logits = torch.randn(args.rows, stride)[:, :words]
        dx, dtable = torch.empty_like(x), torch.empty_like(table)
        products = (lambda: torch.mm(x, table.T, out=logits), lambda: torch.mm(logits, table, out=dx),
                    lambda: torch.mm(logits.T, x, out=dtable))
        figures[name] = [milliseconds(args.device, product, args.rounds) for product in products]
    table = torch.randn(WORDS, WIDTH)
    logits = torch.randn(args.rows, PADDED)
    dx, dtable = torch.empty_like(x), torch.empty_like(table)
    for unit in (8, 64):
        cut = WORDS // unit * unit
        parts = [(logits[:, :cut], table[:cut], dtable[:cut]), (logits[:, cut:WORDS], table[cut:], dtable[cut:])]
        products = (lambda: [torch.mm(x, rows.T, out=columns) for columns, rows, _ in parts],
                    lambda: (torch.mm(*parts[1][:2], out=dx), dx.addmm_(*parts[0][:2])),
                    lambda: [torch.mm(columns.T, x, out=rows) for columns, _, rows in parts])
        figures[f"parts_of_{unit}"] = [milliseconds(args.device, product, args.rounds) for product in products]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
