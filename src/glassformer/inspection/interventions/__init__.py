"""Interventions: what-ifs, head ablation, exchanged cross-attention matrices."""
