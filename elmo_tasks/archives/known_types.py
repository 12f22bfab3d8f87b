"""
The registered types of AllenNLP and allennlp-models that an archive from others may build. Their constructors
compute, or take transformers and models of spaCy from this machine. The other types read files, search
folders or ask a hub for what their config names.
"""

ANY = (
    *("Activation", "Attention", "BatchSampler", "BeamSearch", "Constraint", "Evaluator"),
    *("FinalSequenceScorer", "MatrixAttention", "MultiTaskEpochSampler", "MultiTaskScheduler", "Regularizer"),
    *("Sampler", "SentenceSplitter", "SeqDecoder", "Serializer", "SpanExtractor", "TextFieldEmbedder"),
    *("TokenIndexer", "Tokenizer", "Vocabulary", "DecoderNet"),
)
"""The kinds of which all types are known. The vocabulary of an archive is read from its own folder."""
KNOWN = {
    "Backbone": "pretrained_transformer",
    "DataCollator": "allennlp",
    "DataLoader": "multiprocess multitask simple",
    "DatasetReader": "babi boolq ccgbank commonsenseqa conll2000 conll2003 copynet_seq2seq coref drop "
    "interleaving masked_language_modeling multitask multitask_shim next_token_lm ontonotes_ner piqa preco "
    "ptb_trees qangaroo quac quora_paraphrase semantic_dependencies seq2seq sequence_tagging sharded "
    "simple_language_modeling snli squad squad1 squad2 srl sst_tokens superglue_record swag "
    "text_classification_json transformer_squad transformer_superglue_rte universal_dependencies winobias",
    "Head": "classifier",
    "Initializer": "block_orthogonal constant dirac eye kaiming_normal kaiming_uniform lstm_hidden_bias "
    "normal orthogonal sparse uniform uniform_unit_scaling xavier_normal xavier_uniform zero",
    "LanguageModelHead": "linear",
    "Metric": "attachment_scores auc average bleu boolean_accuracy categorical_accuracy conll_coref_scores "
    "covariance drop entropy f1 f1_multi_label fbeta fbeta_multi_label fbeta_verbose mean_absolute_error "
    "mention_recall pearson_correlation perplexity rouge sequence_accuracy span_f1 spearman_correlation "
    "squad unigram_recall",
    "Model": "basic_classifier bcn biaffine_parser bidaf bidaf-ensemble bidirectional-language-model bimpm "
    "composed_seq2seq constituency_parser copynet_seq2seq coref crf_tagger decomposable_attention dialog_qa "
    "esim from_archive graph_parser language_model masked_language_model multitask naqanet next_token_lm "
    "qanet rc-qanet simple_seq2seq simple_tagger sp-graph-parser srl transformer_mc transformer_qa",
    "Seq2SeqEncoder": "alternating_lstm augmented_lstm bidirectional_language_model_transformer compose "
    "feedforward gated-cnn-encoder gru lstm multi_head_self_attention pass_through pytorch_transformer "
    "qanet_encoder qanet_encoder_block rnn stacked_bidirectional_lstm stacked_self_attention",
    "Seq2VecEncoder": "alternating_lstm augmented_lstm bag_of_embeddings bert_pooler boe cls_pooler cnn "
    "cnn-highway gru lstm rnn stacked_bidirectional_lstm",
    "TokenEmbedder": "bag_of_word_counts character_encoding elmo_token_embedder embedding empty "
    "pass_through pretrained_transformer pretrained_transformer_mismatched",
}


def is_known(kind: str, name: str) -> bool:
    """Tells whether a type is known, by the name of its base class and its registered name."""
    return kind in ANY or name in KNOWN.get(kind, "").split()
