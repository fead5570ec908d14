"""The doctor on architectures that others wrote: nothing crashes, and nothing healthy is called broken."""

import pytest
import torch
from tests.at_length import some_of
from torch import nn
from torch.nn import functional

import pellucid
from pellucid.inspection.instrument.isolation import is_same

VOCAB, LENGTH, ROWS = 23, 8, 12


def tokens(seed):
    return torch.randint(VOCAB, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))


def scored(outputs, targets):
    scores = outputs if isinstance(outputs, torch.Tensor) else outputs.logits
    return functional.cross_entropy(scores.flatten(0, -2), targets.flatten())


class TorchTransformer(nn.Module):
    """torch.nn.Transformer as its tutorial uses it."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 16)
        self.positions = nn.Embedding(LENGTH, 16)
        self.transformer = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)
        self.head = nn.Linear(16, VOCAB)

    def placed(self, ids):
        return self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))

    def forward(self, sources, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.transformer(self.placed(sources), self.placed(ids), tgt_mask=mask, tgt_is_causal=True))


def torch_transformer():
    return TorchTransformer(), ((tokens(0), tokens(1)), tokens(1).roll(-1, 1))


def scikit_like_mlp():
    """As MLPClassifier makes it: one hidden layer of 100 rectified units, Adam at a thousandth."""
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    return nn.Sequential(nn.Linear(8, 100), nn.ReLU(), nn.Linear(100, 3)), (x, x[:, :3].argmax(1))


class Tagger(nn.Module):
    """torch's own recurrent network, both ways over the tokens."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 3)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0])


def lstm_tagger():
    return Tagger(), (tokens(0), tokens(0) % 3)


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=VOCAB, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config), (tokens(0), tokens(0).roll(-1, 1))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=VOCAB, num_key_value_heads=1, max_position_embeddings=16, **SMALL)
    return LlamaForCausalLM(config), (tokens(0), tokens(0).roll(-1, 1))


def bert_that_classifies():
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(
        BertConfig(vocab_size=VOCAB, max_position_embeddings=16, num_labels=3, **SMALL)
    )
    return model, ((tokens(0), torch.ones_like(tokens(0))), torch.arange(ROWS) % 3)


def bert_that_fills_gaps():
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(vocab_size=VOCAB, max_position_embeddings=16, **SMALL))
    hidden = torch.rand(ROWS, LENGTH, generator=torch.Generator().manual_seed(1)) < 0.3
    return model, (tokens(0).masked_fill(hidden, 0), tokens(0).masked_fill(~hidden, -100))


def distilled_bert():
    from transformers import DistilBertConfig, DistilBertForTokenClassification

    config = DistilBertConfig(
        vocab_size=VOCAB, max_position_embeddings=16, dim=16, n_layers=2, n_heads=2, hidden_dim=32, num_labels=3
    )
    return DistilBertForTokenClassification(config), (tokens(0), tokens(0) % 3)


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    model = ViTForImageClassification(ViTConfig(image_size=16, patch_size=4, num_channels=1, num_labels=3, **SMALL))
    images = torch.randn(ROWS, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    return model, (images, torch.arange(ROWS) % 3)


class T5(nn.Module):
    """What forward takes by name, in an order."""

    def __init__(self):
        super().__init__()
        from transformers import T5Config, T5ForConditionalGeneration

        config = T5Config(vocab_size=VOCAB, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        self.network = T5ForConditionalGeneration(config)

    def forward(self, sources, ids):
        return self.network(input_ids=sources, decoder_input_ids=ids).logits


def t5():
    return T5(), ((tokens(0), tokens(1)), tokens(1).roll(-1, 1))


OF_TORCH = (scikit_like_mlp, lstm_tagger, torch_transformer)
OF_HUGGING_FACE = (gpt2, llama, t5, bert_that_fills_gaps, distilled_bert, vit, bert_that_classifies)


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("build", some_of([*OF_TORCH, *OF_HUGGING_FACE], 9), ids=lambda build: build.__name__)
def test_no_crash_and_nothing_broken(build, monkeypatch):
    if build in OF_HUGGING_FACE:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, batch = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = pellucid.doctor(model, batch, scored, optimizer)
    assert [finding for finding in found.findings if finding.severity == "broken"] == []
    assert [rule for rule in found.rules if rule.passed_over.startswith("not known")] == []
    assert sum(finding.severity == "sound" for finding in found.findings) >= 12
    assert found.notes == ()
    assert all(is_same(tensor, before[name]) for name, tensor in model.state_dict().items())
