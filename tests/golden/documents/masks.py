"""The choices of data/masked_tokens.cpp, made again from the paper of their generator (Salmon et al., SC 2011): Philox4x32-10,
with keys by SplitMix64 and FNV-1a."""
ALL = (1 << 64) - 1
WORD = (1 << 32) - 1


def spread(x):
    x = (x + 0x9E3779B97F4A7C15) & ALL
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL
    return x ^ (x >> 31)


def key_of(seed, name):
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & ALL
    return spread(spread(seed) ^ hashed)


def derived(key, index):
    return spread(key ^ spread(index + 1))


def philox(key, block):
    counter, halves = [block & WORD, block >> 32, 0, 0], [key & WORD, key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ halves[0], second & WORD,
                   (first >> 32) ^ counter[3] ^ halves[1], first & WORD]
        halves = [(halves[0] + 0x9E3779B9) & WORD, (halves[1] + 0xBB67AE85) & WORD]
    return counter


def bits(key, index):
    return philox(key, index // 4)[index % 4]


def uniform(key, index):
    return (bits(key, index) >> 8) / (1 << 24)


def masked(tokens, sample, rules):
    """What stands in the place of a sample's tokens, and what they were, or -100."""
    key = derived(key_of(rules["seed"], "masked_lm"), sample)
    out, targets = list(tokens), [-100] * len(tokens)
    for at, token in enumerate(tokens):
        if token in rules["never"] or uniform(key, 3 * at) >= rules["share"]:
            continue
        targets[at] = token
        drawn = uniform(key, 3 * at + 1)
        if drawn < rules["masked"]:
            out[at] = rules["mask"]
        elif drawn < rules["masked"] + rules["random"]:
            out[at] = bits(key, 3 * at + 2) * rules["vocabulary"] >> 32
    return out, targets
