"""Interventions: what-ifs, head ablation, and exchanged cross-attention matrices."""
